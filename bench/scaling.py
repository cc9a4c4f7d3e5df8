#!/usr/bin/env python3
"""Measures how the time of a training step grows with batch size (B), sentence length (T words on both
sides), width (H, and A = H), vocabulary (V) and threads. Each size is varied separately; the others
have the values of the configuration.

Prints a table and draws a plot. The exponent is that of the growth from the previous row: 1 means that
twice the size takes twice the time, -1 that twice the threads take half the time. All sizes are
measured in several rounds. The table shows the minimum of the medians, because other load only makes a
run slower.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

from chart import chart

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPUS = len(os.sched_getaffinity(0))
# Varied size -> values, the options of train_step that set it, and the unit of the cost.
GROWTHS = {
    "B": ([16, 32, 64, 128], ["-B"], "sentence"),
    "T": ([5, 10, 20, 40], ["-T", "-S"], "word"),
    "H": ([128, 256, 512, 1024], ["-H", "-A"], "unit"),
    "V": ([2500, 5000, 10000, 20000], ["-V"], "1000 words"),
    "threads": ([n for n in range(1, CPUS + 1) if n & (n - 1) == 0 or n == CPUS], ["--threads"], None),
}


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive integer")
    return int(text)


def counts(text):
    return sorted({count(one) for one in text.split(",")})


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["bahdanau", "luong"], default="bahdanau", help="(default: bahdanau)")
    parser.add_argument("--config", default="medium", help="values of the other sizes (default: medium)")
    for name, (sizes, _, _) in GROWTHS.items():
        default = ",".join(map(str, sizes))
        parser.add_argument(f"--{name}", type=counts, default=sizes, metavar="N,...", help=f"values to measure (default: {default})")
    parser.add_argument("--rounds", type=count, default=3, help="repetitions of all measurements (default: 3)")
    parser.add_argument("--steps", type=count, default=4, help="timed steps of each run (default: 4)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="build directory (default: build)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="plot to write (default: scaling.svg in the build directory)")
    return parser.parse_args()


def measure(options, name, size):
    """Runs train_step and returns its JSON line."""
    sizes = [word for option in GROWTHS[name][1] for word in (option, size)]
    command = [options.build / "bench/train_step", "--model", options.model, "--config", options.config, "--modes",
               "train", "--warmup", 1, "--steps", options.steps, *([] if name == "threads" else ["--threads", CPUS]),
               *sizes]
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit("scaling: " + (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1])
    return json.loads(done.stdout)


def measure_all(options):
    """Name -> [(size, milliseconds, GFLOP/s), ...]"""
    runs = [(name, size) for name in GROWTHS for size in getattr(options, name)]
    best = {}
    for number in range(options.rounds):
        for name, size in runs:
            print(f"round {number + 1} of {options.rounds}: {name} {size}", file=sys.stderr, flush=True)
            line = measure(options, name, size)
            key = name, size
            if key not in best or line["ms_median"] < best[key]["ms_median"]:
                best[key] = line
    return {name: [(size, best[name, size]["ms_median"], best[name, size]["gflops"])
                   for size in getattr(options, name)] for name in GROWTHS}


def table(results):
    def number(x):
        return f"{x:.3g}" if x < 100 else f"{x:.0f}"

    rows = [["varied", "size", "ms", "GFLOP/s", "unit cost", "", "exponent"]]
    for name, points in results.items():
        unit = GROWTHS[name][2]
        for i, (size, ms, gflops) in enumerate(points):
            if unit is None:
                cost = [number(ms * size), "CPU ms"]
            else:
                cost = [number(1000 * ms / size if unit == "1000 words" else ms / size), f"ms per {unit}"]
            exponent = "-"
            if i:
                before = points[i - 1]
                exponent = f"{math.log(ms / before[1]) / math.log(size / before[0]):.2f}"
            rows.append([name if i == 0 else "", str(size), number(ms), number(gflops), *cost, exponent])
    widths = [max(map(len, column)) for column in zip(*rows)]
    left = (0, 5)
    return "\n".join("  ".join(cell.ljust(w) if i in left else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in rows)


def plot(results, title):
    """Time by size, both relative to the smallest size, on logarithmic axes."""
    lines = {name: [(math.log2(size / points[0][0]), math.log2(ms / points[0][1])) for size, ms, _ in points]
             for name, points in results.items()}
    points = [point for line in lines.values() for point in line]
    right = max(1, math.ceil(max(x for x, _ in points)))
    bottom = math.floor(min(y for _, y in points))
    top = max(bottom + 1, math.ceil(max(y for _, y in points)))
    factor = lambda power: f"{2**power}" if power >= 0 else f"1/{2**-power}"
    end = min(right, top)
    return chart(lines, title, "size relative to the smallest; the dashed line is exponent 1",
                 "time relative to that of the smallest size", [(x, factor(x)) for x in range(right + 1)],
                 [(y, factor(y)) for y in range(bottom, top + 1)], dashed=[(0, 0), (end, end)])


def main():
    options = parse()
    if not (options.build / "bench/train_step").exists():
        raise SystemExit(f"scaling: {options.build}/bench/train_step does not exist: ninja -C build bench/train_step")
    results = measure_all(options)
    print(table(results))
    path = options.svg or options.build / "scaling.svg"
    path.write_text(plot(results, f"Training step, {options.model} {options.config}"))
    print(f"plot: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
