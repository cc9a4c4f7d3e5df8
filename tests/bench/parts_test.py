"""build/bench/parts prints the JSON lines that bench/compare.py reads, and computes the same results as
PyTorch and oneDNN, if installed. bench/compare.py and bench/scaling.py print their tables.

Arguments: the source directory, build/bench/parts, and build/bench/dnnl_lstm if it was built.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

SIZES = {
    "lstm_fwd_bwd": ["B", "H", "T"],
    "additive_attention_fwd_bwd": ["A", "B", "S", "values"],
    "cross_entropy_fwd_bwd": ["classes", "rows"],
    "adam_20m": [],
    "clip_norm_20m": [],
    "listener_step": ["B", "H", "S", "T"],
}
# Number of norms: result and gradients (three parts), parameter, norm and gradient, loss and gradients.
NORMS = dict(zip(SIZES, [7, 5, 2, 1, 2, 35]))
TIMES = ["ms_median", "ms_min", "steps", "peak_rss_mib"]
PYTHON = "/usr/bin/python3"


def run(*command):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True)


def check(holds, what):
    if not holds:
        raise SystemExit(f"parts: {what}")


def lines_of(*command):
    done = run(*command, "--threads", 1, "--steps", 1, "--warmup", 0)
    check(done.returncode == 0, f"{command}: {done.stderr}")
    return {line["bench"]: line for line in map(json.loads, done.stdout.splitlines())}


def check_lines(lines):
    check(lines.keys() == SIZES.keys(), lines.keys())
    for name, line in lines.items():
        products = ["gflop", "gflops"] if name == "lstm_fwd_bwd" else []
        expected = ["peer", "threads", "bench", *SIZES[name], "norms", *products, *TIMES]
        check(list(line) == expected, f"{name}: keys {list(line)}")
        check(len(line["norms"]) == NORMS[name] and min(line["norms"]) > 0, line)
        check(line["ms_median"] >= line["ms_min"] > 0, line)
    # 20 steps of 64 rows, two matrices of 512 x 2048; backward has twice the operations of forward.
    check(lines["lstm_fwd_bwd"]["gflop"] == round(3 * 2e-9 * 20 * 64 * 2 * 512 * 2048, 3), lines["lstm_fwd_bwd"])


def check_same(ours, peers):
    for name, peer in peers.items():
        pairs = list(zip(ours[name]["norms"], peer["norms"], strict=True))
        check(all(math.isclose(a, b, rel_tol=1e-4) for a, b in pairs), f"{name}: {pairs}")
        check(all(ours[name][size] == peer[size] for size in SIZES[name]), f"{name}: {peer}")


def check_tables(bench, build):
    done = run(sys.executable, bench / "compare.py", "--parts", "cross_entropy_fwd_bwd", "--build", build, "--python",
               "/nowhere/python3", "--threads", 1, "--pairs", 1, "--steps", 1)
    check(done.returncode == 0 and done.stdout.splitlines()[1].startswith("cross_entropy_fwd_bwd  -"), done)
    with tempfile.TemporaryDirectory() as directory:
        svg = pathlib.Path(directory) / "scaling.svg"
        one = [word for name in ("T", "H", "V", "threads") for word in (f"--{name}", 1 if name == "threads" else 8)]
        done = run(sys.executable, bench / "scaling.py", "--build", build, "--config", "overhead", "--rounds", 1,
                   "--steps", 1, "--B", "2,4", *one, "--svg", svg)
        check(done.returncode == 0 and len(done.stdout.splitlines()) == 7, done)
        check(svg.read_text().count("<circle") == 6, svg.read_text())


def main():
    source, program, *onednn = map(pathlib.Path, sys.argv[1:])
    ours = lines_of(program)
    check_lines(ours)
    pytorch = run(PYTHON, "-c", "import torch").returncode == 0
    if pytorch:
        check_same(ours, lines_of(PYTHON, source / "bench/peers/torch_parts.py"))
    if onednn:
        check_same(ours, lines_of(onednn[0]))
    for option, value in (("--only", "gemm"), ("--steps", "0"), ("--threads", "many")):
        for command in (program, *onednn):
            done = run(command, option, value)
            check(done.returncode != 0 and done.stderr.count("\n") == 1, f"{command} {option} {value}: {done.stderr}")
    check_tables(source / "bench", program.parent.parent)
    peers = " and ".join(["PyTorch"] * pytorch + ["oneDNN"] * len(onednn))
    print(f"parts: same results as {peers}" if peers else "parts: no peer is installed")


if __name__ == "__main__":
    main()
