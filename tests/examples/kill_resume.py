#!/usr/bin/env python3
"""A training run that is killed ten times and resumed ends with the weights of one that is not, to the last bit.

    tests/examples/kill_resume.py build/examples/translate [SEED]

The language is made up: numbers in letters, written from right to left. The seed decides when the run is killed.
"""
import json, pathlib, random, struct, subprocess, sys, tempfile, time

KILLS = 10
OPTIONS = """--tokens words --embedding 32 --hidden 64 --attention 32 --readout 32 --batch 32 --epochs 24 --rate 0.005
    --dropout 0.2 --label-smoothing 0.1 --average 0.9 --halve 6 --warm-up 20 --weight-decay 0.01 --patience 1000
    --metric loss --bleu none --validate-every 10 --seed 3""".split()


def write_text(directory, name, count, draw):
    lines = [[draw.randrange(40) for _ in range(draw.randint(1, 9))] for _ in range(count)]
    (directory / f"{name}.source").write_text("".join(" ".join(f"s{n}" for n in line) + "\n" for line in lines))
    (directory / f"{name}.target").write_text("".join(" ".join(f"t{n}" for n in line[::-1]) + "\n" for line in lines))


def command(program, directory, out):
    files = [f"--{prefix}{side}={directory}/{name}.{side}"
             for name, prefix in (("train", ""), ("valid", "valid-")) for side in ("source", "target")]
    return [program, "train", "--resume", "--out", str(directory / out), *files, *OPTIONS]


def run(arguments, seconds=None):
    """Whether it came to its end before it was killed."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    assert status == 0, f"{' '.join(arguments)} ended with {status}"
    return True


def checkpoint(path):
    """The bytes of each tensor, and what is said of the run but for its time."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    said = header.pop("__metadata__")
    del said["seconds"], said["attune.checksum"]
    return {name: data[start + t["data_offsets"][0]:start + t["data_offsets"][1]] for name, t in header.items()}, said


def log(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    measured = ("seconds", "words_per_s", "examples_per_s", "rss_mib")
    return [{k: v for k, v in line.items() if k not in measured} for line in lines]


def main(program, seed):
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write_text(directory, "train", 1500, draw)
        write_text(directory, "valid", 40, draw)
        start = time.monotonic()
        run(command(program, directory, "whole"))
        whole = time.monotonic() - start

        moments = []  # of a kill, in seconds from the start of the life that it ends
        finished = False
        while not finished and len(moments) < KILLS:
            moments.append(draw.uniform(0, whole / 6))
            finished = run(command(program, directory, "killed"), moments[-1])
        kills = len(moments) - finished
        if not finished:
            run(command(program, directory, "killed"))

        for file in ("best.safetensors", "last.safetensors"):
            tensors, said = checkpoint(directory / "killed" / file)
            expected, expected_said = checkpoint(directory / "whole" / file)
            assert tensors.keys() == expected.keys()
            other = [name for name in tensors if tensors[name] != expected[name]]
            assert not other, f"{file}: other values in {other}"
            assert said == expected_said, f"{file}: {set(said.items()) ^ set(expected_said.items())}"
        assert log(directory / "killed/log.jsonl") == log(directory / "whole/log.jsonl"), "the logs are not the same"
        left = [path.name for path in (directory / "killed").glob("*.tmp")]
        assert not left, f"half-written files: {left}"
        steps = said["step"]
    print(f"seed {seed}: {steps} updates in {whole:.1f} s, killed {kills} times and resumed: the same weights")
    assert kills >= KILLS // 2, "it was hardly ever killed: the machine's speed changed"


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
