#!/usr/bin/env python3
"""Injects disk errors into trainings. A training must report the error in one line, keep its files,
and give the same results when resumed.

    tests/examples/disk_faults.py LIBRARY PROGRAM [--all]

LIBRARY is built from tests/support/disk_faults.cpp, PROGRAM is attune. System calls on the run's
directory fail one after the other: the first and the last of each kind of call and file, or with
--all each of them.
"""
import concurrent.futures, os, pathlib, random, re, shutil, subprocess, sys, tempfile

from kill_resume import TASKS, checkpoint, log, write_pairs, write_text

TEMPORARY = re.compile(r"\.\d+\.\d+\.tmp$|/#\d+ \(deleted\)$")  # the latter has no name: errors name its directory
REASONS = {"EIO": "Input/output error", "ENOSPC": "No space left on device"}
OPTIONS = {
    "words": """--tokens characters --metric exact --hidden 8 --embedding 8 --attention 8 --readout 8 --encoder-layers 1
        --batch 4 --steps 4 --validate-every 2 --average 0.9""",
    "sentences": """--tokens words --metric bleu --embedding 8 --hidden 8 --attention 8 --readout 8 --batch 4 --epochs 2
        --validate-every 2 --average 0.9 --halve 6 --bleu none""",
}


class Training:
    """A small training that runs in subdirectories of `directory`."""

    def __init__(self, library, program, task, directory):
        self.library, self.name, self.directory = library, pathlib.Path(program).name, directory
        draw = random.Random(1)
        files = []
        for name, count in ("train", 8), ("valid", 2):
            if task == "sentences":
                write_text(directory, name, count, draw)
                files += [f"--{name}={directory}/{name}.source", f"--{name}-target={directory}/{name}.target"]
            else:
                write_pairs(directory, name, count, draw)
                files.append(f"--{name}={directory}/{name}.tsv")
        self.command = [program, "train", "--resume", *files, *OPTIONS[task].split()]

    def run(self, out, kind="", at=0):
        """Runs it; returns the process, and the number of calls that the fault `kind` applies to."""
        calls = out.with_suffix(".calls")
        calls.unlink(missing_ok=True)
        environment = dict(os.environ, LD_PRELOAD=self.library, ATTUNE_FAULT_BELOW=str(out), ATTUNE_FAULT_KIND=kind,
                           ATTUNE_FAULT_AT=str(at), ATTUNE_FAULT_CALLS=str(calls), ATTUNE_THREADS="1",
                           ASAN_OPTIONS="verify_asan_link_order=0:" + os.environ.get("ASAN_OPTIONS", ""))
        process = subprocess.run([*self.command, "--out", str(out)], env=environment, text=True, capture_output=True)
        return process, calls.read_text().splitlines()


def checkpoints(out):
    """The files of a run, except logs and files of earlier runs. Checks that each is complete."""
    names = {path.name for path in out.iterdir() if ".previous." not in path.name}
    names -= {"log.jsonl", "attune.lock", "report.html"}
    assert names <= {"best.safetensors", "last.safetensors"}, f"left behind: {names}"
    return {name: checkpoint(out / name) for name in names}


def contents(out):
    """The results of a run, without times."""
    return dict(checkpoints(out), log=log(out / "log.jsonl"))


def check(training, before, expected, kind, at):
    """Injects one fault into a run that starts from a copy of `before`, or from an empty directory.
    Returns whether the fault ended the run."""
    out = training.directory / f"{before.name if before else 'new'}-{kind}-{at}"
    if before:
        shutil.copytree(before, out)
    process, calls = training.run(out, kind, at)
    failed = calls[at - 1:] if kind == "ENOSPC" else [calls[at - 1]]
    what = f"{out.name}, {failed[0]}, ended with {process.returncode}: {process.stderr}"
    ended = process.returncode != 0
    if ended:
        assert kind != "SHORT" and process.returncode == 1, what
        line, end = process.stderr[:-1], process.stderr[-1:]
        files = {TEMPORARY.sub("", call.split(" ", 1)[1]) for call in failed}
        assert end == "\n" and "\n" not in line and line.startswith(training.name + ": "), what
        assert any(file in line for file in files) and REASONS[kind] in line, what
        if out.exists():
            checkpoints(out)
        process, _ = training.run(out)
        assert process.returncode == 0, f"{what}\nresumed: {process.stderr}"
    found = contents(out)
    other = [name for name in expected if found.get(name) != expected[name]]
    assert not other, f"{what}\nother contents: {other}"
    shutil.rmtree(out)
    out.with_suffix(".calls").unlink()
    return ended


def chosen(calls, everything):
    """Indices of the calls that fail, from 1."""
    places = {}
    for number, call in enumerate(calls, 1):
        places.setdefault(TEMPORARY.sub(".tmp", call), []).append(number)
    return sorted({n for numbers in places.values() for n in (numbers if everything else (numbers[0], numbers[-1]))})


def check_training(library, program, task, everything):
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        directory = pathlib.Path(name).resolve()
        training = Training(library, program, task, directory)
        process, calls = training.run(directory / "whole", "EIO")
        assert process.returncode == 0, process.stderr
        expected = contents(directory / "whole")
        # An interrupted run: its second last.safetensors cannot be renamed.
        renames = [n for n, call in enumerate(calls, 1) if call.startswith("rename") and "/last.safetensors" in call]
        training.run(directory / "half", "EIO", renames[1])
        assert checkpoint(directory / "half/last.safetensors") != expected["last.safetensors"]

        jobs = []
        for before in (None, directory / "half"):
            for kind in ("EIO", "ENOSPC", "SHORT"):
                out = directory / "trace"
                if before:
                    shutil.copytree(before, out)
                process, calls = training.run(out, kind)
                assert process.returncode == 0 and calls, process.stderr
                shutil.rmtree(out)
                jobs += [pool.submit(check, training, before, expected, kind, at) for at in chosen(calls, everything)]
        ended = sum(job.result() for job in jobs)
        print(f"{training.name}, {task}: {len(jobs)} faults, {ended} of which ended the training, and nothing lost")


if __name__ == "__main__":
    for task in TASKS:
        check_training(sys.argv[1], sys.argv[2], task, "--all" in sys.argv)
