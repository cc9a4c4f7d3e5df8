#!/usr/bin/env python3
"""Compares the speed of attune with another program (the peer): training steps, forward passes and
greedy decoding, or, with --parts, single parts of models.

Short runs of both programs alternate, so that the state of the machine is the same for both. Each
time is the minimum of all runs, because other load only makes a step slower. "times faster" is the
ratio of the peer's time to attune's time. "by pairs" is the median of the ratios of each pair of runs,
with minimum and maximum. "of peak" is the fraction of the peak GFLOP/s of fused multiply-adds on
registers; only matrix products and attention sums are counted.

The peer is PyTorch. With --precisions bf16 it runs under autocast; bf16x3 is compared with its f32.
With several --python, the peer of a row is the fastest of them in a trial run. With --parts, the LSTM
is also compared with oneDNN, if build/bench/dnnl_lstm exists. Without a peer, only attune is
measured. An untuned peer (see bench/peers/tuned.sh) is an error. Both programs get the same
environment: leave OPENBLAS_CORETYPE unset, so that each selects its fastest kernels.
"""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from scaling import count, counts

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Timed steps of a run, which takes a few seconds for most sizes.
STEPS = {"toy": 60, "small": 20, "medium": 6, "large": 3, "overhead": 300,
         "tiny": 20, "base": 3, "nanogpt": 100, "gpt2": 4}
PARTS = {"lstm_fwd_bwd": 25, "additive_attention_fwd_bwd": 600, "cross_entropy_fwd_bwd": 150, "adam_20m": 80,
         "clip_norm_20m": 200, "listener_step": 10}

# Prints which libraries the peer's process has loaded.
LOOK = """
import json, os, torch
maps = open("/proc/self/maps").read()
print(json.dumps({"torch": torch.__version__, "jemalloc": "libjemalloc" in maps, "openmp": "openblas-openmp" in maps,
                  "mkl": torch.backends.mkl.is_available(), "pthread": "openblas-pthread" in maps, "kernels": os.environ.get("OPENBLAS_CORETYPE", "")}))
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def names(flag, default, allowed, **more):
        def several(text):
            for name in text.split(","):
                if name not in allowed:
                    raise argparse.ArgumentTypeError(f"'{name}' is not one of {', '.join(allowed)}")
            return text.split(",")

        parser.add_argument(flag, type=several, default=default and several(default), metavar="NAME,...",
                            help=f"any of {', '.join(allowed)}" + (f" (default: {default})" if default else ""), **more)

    names("--models", "bahdanau", ["bahdanau", "luong", "transformer", "lm"])
    names("--configs", "toy,small,medium", list(STEPS))
    names("--modes", "train", ["train", "fwd", "greedy"])
    names("--precisions", "f32", ["f32", "bf16x3", "bf16"])
    names("--parts", None, list(PARTS), nargs="?", const=list(PARTS))

    parser.add_argument("--threads", type=counts, default=[1, 2], metavar="N,...", help="numbers of threads (default: 1,2)")
    parser.add_argument("--lengths", choices=["full", "varied"], default="full", help="sentence lengths (default: full)")
    parser.add_argument("--pairs", type=count, default=7, help="pairs of runs for each row (default: 7)")
    parser.add_argument("--steps", type=count, help="timed steps of each run (default: a few seconds)")
    parser.add_argument("--warmup", type=int, default=3, help="untimed steps before each run (default: 3)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="build directory (default: build)")
    parser.add_argument("--peer", type=pathlib.Path, default=ROOT / "bench/peers", metavar="DIR",
                        help="folder with tuned.sh, and *seq2seq.py or *parts.py (default: bench/peers)")
    parser.add_argument("--python", action="append", metavar="FILE",
                        help="Python with torch; may be repeated (default: /usr/bin/python3)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all measurements to this file")
    options = parser.parse_args()
    options.python = options.python or ["/usr/bin/python3"]
    return options


def fail(message):
    raise SystemExit(f"compare: {message}")


def say(message):
    print(message, file=sys.stderr, flush=True)


def run(command, environment=None):
    """Runs a program and returns the JSON lines that it prints."""
    done = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True)
    if done.returncode != 0:
        last = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        fail(f"{' '.join(map(str, command[:3]))} ...: {last}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Program(NamedTuple):
    """A program to compare."""
    command: list
    environment: dict = None


class Row(NamedTuple):
    labels: dict  # the first columns of the table
    threads: int
    programs: dict  # "ours" and, if found, "peer": a list of candidates, later the fastest one
    arguments: list
    precision: str = ""

    def __str__(self):
        return f"{' '.join(self.labels.values())}, threads {self.threads}"

    def measure(self, name, options):
        """Batch size of greedy decoding (else None) -> result of the program."""
        program = self.programs[name]
        arguments = [*self.arguments, "--threads", self.threads, "--warmup", options.warmup]
        if self.precision:
            peers = "f32" if self.precision == "bf16x3" else self.precision
            arguments += ["--precision", self.precision if name == "ours" else peers]
        return {line.get("batch"): line for line in run(program.command + arguments, program.environment)}


def find_tuned(options, scripts):
    """Returns a function that makes a tuned Program of a command, and the peer's programs, one for
    each Python that has PyTorch. `scripts` is the glob pattern of the peer's script."""
    pattern, scripts = scripts, sorted(options.peer.glob(scripts))
    tuned = options.peer / "tuned.sh"
    if not scripts or not tuned.exists():
        fail(f"{options.peer} must contain tuned.sh and {pattern}")
    under, programs = lambda command: Program(command), []
    for python in options.python:
        imported = [python, "-c", "import torch"]
        if not shutil.which(python) or subprocess.run(imported, capture_output=True).returncode != 0:
            say(f"{python} has no PyTorch (apt-get install python3-torch) and is not measured")
            continue
        say(f"checking the libraries of {python}")
        look = run([tuned, python, "-c", LOOK])[0]
        if not look["jemalloc"] or look["pthread"] or not (look["openmp"] or look["mkl"]):
            fail("the peer is not tuned: it must load jemalloc, and either MKL or only the OpenMP variant of OpenBLAS; "
                 "see bench/peers/tuned.sh")
        say(f"PyTorch {look['torch']}, " + ("MKL" if look["mkl"] else f"OpenBLAS kernels {look['kernels']}"))
        environment = dict(os.environ)
        if look["kernels"]:  # tuned.sh then skips the search for the fastest kernels
            environment["OPENBLAS_CORETYPE"] = look["kernels"]
        under = lambda command, environment=environment: Program([tuned, *command], environment)
        programs.append(under([python, scripts[0]]))
    return under, programs


def rows_of_models(options):
    _, pythons = find_tuned(options, "*seq2seq.py")
    for model, config, mode, precision, threads in itertools.product(
            options.models, options.configs, options.modes, options.precisions, options.threads):
        ours = Program([options.build / "bench/train_step"])
        label = mode if precision == "f32" else f"{mode} {precision}"
        yield Row({"model": model, "config": config, "mode": label}, threads,
                  {"ours": ours} | ({"peer": pythons} if pythons else {}),
                  ["--model", model, "--config", config, "--modes", mode, "--lengths", options.lengths,
                   "--steps", options.steps or STEPS[config]], precision)


def rows_of_parts(options):
    ours = Program([options.build / "bench/parts"])
    onednn = options.build / "bench/dnnl_lstm"
    tuned, pythons = find_tuned(options, "*parts.py")
    for part, threads in itertools.product(options.parts, options.threads):
        peers = {"oneDNN": [tuned([onednn])]} if part == "lstm_fwd_bwd" and onednn.exists() else {}
        peers |= {"PyTorch": pythons} if pythons else {}
        for name, peer in peers.items() or [("-", None)]:
            yield Row({"part": part, "peer": name}, threads, {"ours": ours} | ({"peer": peer} if peer else {}),
                      ["--only", part, "--steps", options.steps or PARTS[part]])


class Progress:
    def __init__(self, pairs):
        self.left, self.done, self.start = pairs, 0, time.monotonic()

    def say(self, row, what):
        rest = ""
        if self.done:
            minutes = (time.monotonic() - self.start) / self.done * self.left / 60
            rest = f"; about {minutes:.0f} min left" if minutes >= 1 else "; less than a minute left"
        say(f"{row}: {what}{rest}")


def measure_row(row, options, progress, pairs):
    """Adds pairs of runs; without a peer, runs of attune."""
    if isinstance(row.programs.get("peer"), list):
        peers = row.programs["peer"]

        def seconds(peer):
            row.programs["peer"] = peer
            return min(line["ms_min"] for line in row.measure("peer", options).values())

        row.programs["peer"] = min(peers, key=seconds) if len(peers) > 1 else peers[0]
    while len(pairs) < options.pairs:
        progress.say(row, f"pair {len(pairs) + 1} of {options.pairs}")
        pairs.append({name: row.measure(name, options) for name in row.programs})
        progress.done, progress.left = progress.done + 1, progress.left - 1


def summary(row, pairs, batch, limit):
    """Column -> value, for a row of the table."""
    result = row.labels | {"threads": row.threads}
    if batch:
        result["mode"] += f" of {batch}"

    def of_runs(of, key, select):
        values = [pair[of][batch][key] for pair in pairs if of in pair and key in pair[of][batch]]
        return select(values) if values else None

    for of in ("ours", "peer"):
        result[f"{of} ms"] = of_runs(of, "ms_min", min)
        gflops = of_runs(of, "gflops", max)
        result[f"{of} of limit"] = gflops and gflops / limit
        result[f"{of} MiB"] = of_runs(of, "peak_rss_mib", statistics.median)
    result["faster"] = result["peer ms"] and result["peer ms"] / result["ours ms"]
    result["ratios"] = [pair["peer"][batch]["ms_min"] / pair["ours"][batch]["ms_min"]
                        for pair in pairs if "peer" in pair]
    variants = {pair["peer"][batch].get("variant", "") for pair in pairs if "peer" in pair}
    names = {pair["peer"][batch]["peer"] for pair in pairs if "peer" in pair}
    result["peer was"] = " ".join([*sorted(names), *sorted(variants)]).strip() or "-"
    result["pairs"] = len(pairs)
    return result


def table(summaries, options):
    def number(x):
        return "-" if x is None else f"{x:.3g}" if x < 100 else f"{x:.0f}"

    def percent(x):
        return "-" if x is None else f"{100 * x:.0f} %"

    def spread(ratios):
        return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})" if ratios else "-"

    labels = list(summaries[0])[:list(summaries[0]).index("threads")]
    header = [*labels, "threads", "attune ms", "peer ms", "times faster", "by pairs", "attune of peak", "peer of peak",
              "attune MiB", "peer MiB", "pairs", "peer was"]
    rows = [[*(s[label] for label in labels), str(s["threads"]), number(s["ours ms"]), number(s["peer ms"]),
             "-" if s["faster"] is None else f"{s['faster']:.2f}", spread(s["ratios"]), percent(s["ours of limit"]), percent(s["peer of limit"]),
             number(s["ours MiB"]), number(s["peer MiB"]),
             f"{s['pairs']} of {options.pairs}", s["peer was"]] for s in summaries]
    widths = [max(map(len, column)) for column in zip(header, *rows)]
    lines = []
    for row in [header, *rows]:
        cells = [cell.ljust(w) if i < len(labels) else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def main():
    options = parse()
    train_step = options.build / "bench/train_step"
    for program in [train_step] + ([options.build / "bench/parts"] if options.parts else []):
        if not program.exists():
            fail(f"{program} does not exist: ./tests/run.sh builds it")
    variables = {k: v for k, v in os.environ.items() if k.startswith(("OPENBLAS_", "ATTUNE_", "OMP_"))}
    if variables:
        say("environment of both programs: " + " ".join(f"{k}={v}" for k, v in variables.items()))
    rows = list(rows_of_parts(options) if options.parts else rows_of_models(options))
    limits = {n: run([train_step, "--peak", "--threads", n])[0]["peak_gflops"] for n in options.threads}
    for n, limit in limits.items():
        say(f"peak of fused multiply-adds, threads {n}: {limit:.0f} GFLOP/s")

    progress = Progress(len(rows) * options.pairs)
    measured, failed = [(row, []) for row in rows], None
    try:
        for row, pairs in measured:
            measure_row(row, options, progress, pairs)
    except (KeyboardInterrupt, SystemExit) as error:
        failed = error
        say(f"{error or 'interrupted'}: the table shows the runs until then")
    summaries, results = [], []
    for row, pairs in measured:
        for batch in pairs[0]["ours"] if pairs else [None]:
            summaries.append(summary(row, pairs, batch, limits[row.threads]))
        flat = [{k: list(v.values()) for k, v in pair.items()} for pair in pairs]
        results.append(row.labels | {"threads": row.threads, "pairs": flat})
    if summaries:
        print(table(summaries, options))
    if options.json:
        everything = {"environment": variables, "peak_gflops": limits, "table": summaries, "rows": results}
        options.json.write_text(json.dumps(everything, indent=1) + "\n")
    sys.exit(failed is not None)


if __name__ == "__main__":
    main()
