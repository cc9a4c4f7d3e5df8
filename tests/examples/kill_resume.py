#!/usr/bin/env python3
"""Training runs that are killed and resumed must give the same weights, state and log, bit for bit, as
an uninterrupted run.

    tests/examples/kill_resume.py build/examples/attune --kills 200 --seed 1

--kills is the total number of SIGKILLs, at random times (--seed): during start, steps and validations,
and a third of them while a file is written. SIGTERM, SIGINT and SIGHUP are sent in between.
"""
import argparse, json, pathlib, random, signal, struct, subprocess, tempfile, time

SIZES = "--embedding 16 --hidden 32 --attention 16 --readout 16 --dropout 0.2 --seed 3 --threads 1".split()
SENTENCES = """--tokens words --batch 32 --epochs 12 --rate 0.005 --label-smoothing 0.1 --average 0.9 --halve 6
    --warm-up 20 --weight-decay 0.01 --patience 1000 --metric loss --bleu none --validate-every 13""".split()
WORDS = """--tokens characters --metric exact --schedule late-decay --batch 16 --steps 400 --validate-every 13
    --patience 1000 --rate 0.01 --average 0.9 --max-tokens 1000 --held-out 40""".split()


def pairs(count, draw):
    """Number words; the target is in reverse order."""
    lines = [[draw.randrange(40) for _ in range(draw.randint(1, 9))] for _ in range(count)]
    return [(" ".join(f"s{n}" for n in line), " ".join(f"t{n}" for n in line[::-1])) for line in lines]


def write_text(directory, name, count, draw):
    for side, lines in zip(("source", "target"), zip(*pairs(count, draw))):
        (directory / f"{name}.{side}").write_text("".join(line + "\n" for line in lines))


def write_pairs(directory, name, count, draw):
    (directory / f"{name}.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs(count, draw)))


TASKS = "words", "sentences"  # what attune is trained on


def options(task, directory):
    draw = random.Random(0)
    if task == "words":
        write_pairs(directory, "train", 1200, draw)
        return SIZES + WORDS + [f"--train={directory}/train.tsv"]
    for name, count in (("train", 1200), ("valid", 40)):
        write_text(directory, name, count, draw)
    return SIZES + SENTENCES + [f"--{name}{option}={directory}/{name}.{side}" for name in ("train", "valid")
                                for option, side in (("", "source"), ("-target", "target"))]


def is_writing(out):
    return any(name.suffix == ".tmp" for name in out.iterdir()) if out.is_dir() else False


class Life:
    """A running program."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self):
        _, errors = self.process.communicate()
        assert not errors, f"{' '.join(self.command)}: {errors}"
        return self.process.returncode

    def end(self, number, seconds, out, when_writing):
        """Sends a signal after these seconds, or earlier while a file is written. Returns whether it
        ended the program."""
        last = time.monotonic() + seconds
        while time.monotonic() < last and self.process.poll() is None and not (when_writing and is_writing(out)):
            time.sleep(0.0002)
        self.process.send_signal(number)
        if number == signal.SIGTERM:
            self.process.send_signal(number)  # as `timeout` does, to the program and to its group
        status = self.wait()
        # Before a run begins, the default action of the signal ends the program.
        assert status in (0, -number, 128 + number), f"{' '.join(self.command)}: {status} after signal {number}"
        return status != 0


def checkpoint(path):
    """The bytes of each tensor, and the metadata without times."""
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    said = header.pop("__metadata__")
    del said["seconds"], said["attune.checksum"], said["training"]
    said.pop("log_line", None)  # it has times, too
    return {name: data[start + t["data_offsets"][0]:start + t["data_offsets"][1]] for name, t in header.items()}, said


def log(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "training") and not k.endswith(("_per_s", "_mib"))} for line in lines]


def check_same(run, whole):
    for file in ("best.safetensors", "last.safetensors"):
        tensors, said = checkpoint(run / file)
        expected, expected_said = checkpoint(whole / file)
        assert tensors.keys() == expected.keys()
        other = [name for name in tensors if tensors[name] != expected[name]]
        assert not other, f"{run / file}: other values in {other}"
        assert said == expected_said, f"{run / file}: {set(said.items()) ^ set(expected_said.items())}"
    assert log(run / "log.jsonl") == log(whole / "log.jsonl"), f"{run}: another log"
    # The next run renames files of a run that was killed before its first last.safetensors.
    names = sorted(path.name for path in run.iterdir() if ".previous." not in path.name and path.name != "report.html")
    assert names == ["best.safetensors", "last.safetensors", "log.jsonl"], names


def check_training(program, task, kills, draw):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        chosen = options(task, directory)
        command = lambda out: [program, "train", "--resume", "--out", str(directory / out), *chosen]
        seconds = []  # of a whole run, and of one that has nothing left to do
        for _ in range(2):
            start = time.monotonic()
            assert Life(command("whole")).wait() == 0
            seconds.append(time.monotonic() - start)
        longest = seconds[1] + (seconds[0] - seconds[1]) / 8
        killed = others = runs = 0
        while killed < kills:
            out = directory / f"run{runs}"
            finished = False
            while not finished:
                number = signal.SIGKILL if draw.random() < 0.7 else draw.choice(
                    [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
                if killed == kills:
                    finished = Life(command(out.name)).wait() == 0
                elif Life(command(out.name)).end(number, draw.uniform(0, longest), out, draw.random() < 1 / 3):
                    killed += number == signal.SIGKILL
                    others += number != signal.SIGKILL
                else:
                    finished = True
            check_same(out, directory / "whole")
            runs += 1
    print(f"{program}, {task}: {runs} runs of {seconds[0]:.1f} s, killed {killed} times and interrupted {others} times, "
          "and resumed: the same bits")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    for i, task in enumerate(TASKS):
        check_training(arguments.program, task, (arguments.kills + i) // 2, draw)


if __name__ == "__main__":
    main()
