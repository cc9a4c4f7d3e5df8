"""build/bench/train_step prints the JSON lines that bench/compare.py reads, counts operations correctly,
and computes the same results as PyTorch, if /usr/bin/python3 has PyTorch.

Arguments: the program and the source directory.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

COMMON = ["peer", "threads", "bench", "model", "config", "lengths", "precision", "params"]
TIMES = ["ms_median", "ms_min", "steps", "peak_rss_mib"]
LOSS = COMMON + ["tok_per_s", "gflop", "gflops"] + TIMES
GREEDY = COMMON + ["batch", "sent_per_s"] + TIMES
# GFLOP of a toy training step; a forward pass has a third of them.
GFLOP = {"bahdanau": 3.078, "luong": 2.121}
PYTHON = "/usr/bin/python3"


def run(*command):
    return subprocess.run([str(word) for word in command], text=True, capture_output=True)


def check(holds, what):
    if not holds:
        raise SystemExit(f"train_step: {what}")


def check_lines(program, model):
    done = run(program, "--model", model, "--config", "toy", "--threads", 1, "--steps", 1, "--warmup", 0)
    check(done.returncode == 0, done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    check([line["bench"] for line in lines] == ["train", "fwd", "greedy", "greedy"], done.stdout)
    for line, keys in zip(lines, [LOSS, LOSS, GREEDY, GREEDY]):
        check(list(line) == keys, f"keys {list(line)}")
        check(line["ms_median"] >= line["ms_min"] > 0, line)
    check([lines[0]["gflop"], lines[1]["gflop"]] == [GFLOP[model], round(GFLOP[model] / 3, 3)], lines[:2])
    check([lines[2]["batch"], lines[3]["batch"]] == [1, 64], lines[2:])


def check_sizes(program):
    """Half the sentences have half the operations."""
    done = run(program, "--config", "toy", "-B", 32, "--modes", "fwd", "--threads", 1, "--steps", 1, "--warmup", 0)
    check(done.returncode == 0, done.stderr)
    line = json.loads(done.stdout)
    check(line["config"] == "toy, B 32" and line["gflop"] == round(GFLOP["bahdanau"] / 6, 3), line)


def check_precision(program):
    """If the CPU does not accelerate bf16, --precision bf16 is an error of one line."""
    done = run(program, "--precision", "bf16", "--modes", "fwd", "--threads", 1, "--steps", 1, "--warmup", 0)
    if done.returncode == 0:
        check(json.loads(done.stdout)["precision"] == "bf16", done.stdout)
    else:
        check("this CPU does not compute bf16 products faster than f32" in done.stderr, done.stderr)


def check_against_pytorch(program, peers, model):
    with tempfile.TemporaryDirectory() as directory:
        npz, tensors = f"{directory}/peer.npz", f"{directory}/peer.safetensors"
        for command in (
            [PYTHON, peers / "torch_seq2seq.py", "--model", model, "--lengths", "varied", "--threads=1", "--dump", npz],
            [PYTHON, peers / "npz_to_safetensors.py", npz, tensors],
            [program, "--check", tensors],
        ):
            done = run(*command)
            check(done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")


def main():
    program, source = map(pathlib.Path, sys.argv[1:])
    pytorch = run(PYTHON, "-c", "import torch").returncode == 0
    for model in ("bahdanau", "luong"):
        check_lines(program, model)
        if pytorch:
            check_against_pytorch(program, source / "bench/peers", model)
    check_sizes(program)
    check_precision(program)
    for option, value in (("-H", "0"), ("--config", "huge"), ("--modes", "train,sleep"), ("--steps", "0"), ("--check", "none")):
        done = run(program, option, value)
        check(done.returncode == 1 and done.stderr.count("\n") == 1, f"{option} {value}: {done.stderr}")
    print("train_step: same results as PyTorch" if pytorch else "train_step: PyTorch is not installed")


if __name__ == "__main__":
    main()
