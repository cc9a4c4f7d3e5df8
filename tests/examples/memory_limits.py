#!/usr/bin/env python3
"""Programs with too little memory must end with a one-line error, and never hang or abort. A training
must then resume as if it had not been interrupted.

    tests/examples/memory_limits.py build/examples/{dates,attune}

Runs each program with increasing limits of the address space, until it succeeds.
"""
import json, pathlib, resource, subprocess, sys, tempfile

TRAIN = """train pairs.tsv --valid valid.tsv --tokens words --hidden 256 --embedding 256 --batch 64 --steps 3
    --validate-every 2 --threads 2 --out model"""


def run(command, megabytes, directory):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return subprocess.run(command, cwd=directory, preexec_fn=limit, timeout=600, text=True, capture_output=True)


def check(command, directory):
    name, told, losses = " ".join(command[:2]), 0, set()
    for megabytes in range(40, 2000, 40):
        result = run(command, megabytes, directory)
        if command[1] == "train":
            subprocess.run([*command, "--resume"], cwd=directory, check=True, capture_output=True)
            log = pathlib.Path(directory, "model/log.jsonl").read_text().splitlines()
            losses.add(json.loads(log[-1])["valid_loss"])
        if result.returncode == 0:
            assert len(losses) < 2, losses
            return print(f"{name}: needs {megabytes} MiB, and said so {told} times")
        what = f"{name}, {megabytes} MiB: {result.returncode} {result.stderr}"
        if result.returncode == 127 and "loading shared libraries" in result.stderr:
            continue  # it has not started
        assert result.returncode == 1 and result.stderr.count("\n") == 1, what
        assert "memory" in result.stderr or "thread 2 of 2 cannot be started" in result.stderr, what
        told += 1
    sys.exit(f"{name}: does not succeed")


def main():
    dates, attune = (str(pathlib.Path(program).resolve()) for program in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as directory:
        text = "".join(f"{'a b ' * (i % 20)}c{i}\t{'d e ' * (i % 20)}f{i}\n" for i in range(64))
        (pathlib.Path(directory) / "pairs.tsv").write_text(text)
        (pathlib.Path(directory) / "valid.tsv").write_text("a b c1\td e f1\n")
        for command in ([dates, "--steps", "2"], [attune, "--version"], [attune, *TRAIN.split()],
                        [attune, "predict", "--model", "model", "a b c1"]):
            check(command, directory)


main()
