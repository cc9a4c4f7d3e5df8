#!/usr/bin/env python3
"""Training with several workers must be reproducible bit for bit with one worker, also when it is killed
and resumed with another number of workers.

    tests/examples/workers_test.py build/examples/attune --kills 2

With --kills N, a random worker of each training is killed N times, at random times; the training is
resumed with another number of workers.
"""
import argparse, os, pathlib, random, signal, subprocess, sys, tempfile, time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kill_resume

ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1")


def start(workers, *command):
    return subprocess.Popen(["mpirun", "-n", str(workers), *command], env=ENVIRONMENT, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(workers, *command):
    process = start(workers, *command)
    output, errors = process.communicate(timeout=3000)
    assert process.returncode == 0 and not errors, f"{command}: {process.returncode} {errors}"
    return output


def errors_of(workers, *command):
    """The error lines of a failing program, without those of mpirun."""
    process = start(workers, *command)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1, f"{command}: {process.returncode}"
    return [line for line in errors.splitlines() if line.startswith(pathlib.Path(command[0]).name + ":")]


def workers_of(process):
    """Ids of the processes that this mpirun started; with MPICH, its child starts them."""
    children = pathlib.Path(f"/proc/{process}/task/{process}/children")
    own = [int(child) for child in children.read_text().split()] if children.exists() else []
    return [worker for child in own for worker in workers_of(child) or [child]]


def kill_one(process, seconds, draw, report):
    """Kills one of the workers after some seconds. Returns False if none was running. A kill after the
    report changes nothing."""
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        pass
    some = workers_of(process.pid)
    if not some:
        return False
    over = report.exists()
    os.kill(draw.choice(some), signal.SIGKILL)
    begin = time.monotonic()
    process.communicate(timeout=600)
    seconds = time.monotonic() - begin
    if over and process.returncode == 0:
        return False
    assert process.returncode != 0, "the others went on without it"
    assert seconds < 100, f"the others ended {seconds:.1f} s after it"
    return True


def check_training(program, name, directory, kills, draw):
    train = [program, "train", *kill_resume.options(name, directory), "--shards", "4"]
    once = directory / f"{name}-once"
    begin = time.monotonic()
    subprocess.run([*train, "--out", once], check=True, stdout=subprocess.DEVNULL)
    seconds = time.monotonic() - begin
    for workers in (2, 3):
        together = directory / f"{name}-{workers}"
        assert f"{workers} workers of 1 thread" in run(workers, *train, "--out", str(together))
        kill_resume.check_same(together, once)
    killed, out = 0, directory / f"{name}-killed"
    while killed < kills:
        resume = [*train, "--out", str(out), "--resume"]
        killed += kill_one(start(draw.choice((1, 2, 4)), *resume), draw.uniform(0.3, 1.5 * seconds), draw,
                           out / "report.html")
    run(2, *train, "--out", str(out), "--resume")
    kill_resume.check_same(out, once)


def check_predictions(program, directory):
    """The first worker reads standard input and writes all lines in order."""
    command = [program, "predict", "--model", str(directory / "sentences-once" / "best.safetensors"),
               "--batch", "1", "--best", "2"]
    lines = (directory / "train.source").read_text()
    alone, together = (subprocess.run(start + command, input=lines, text=True, capture_output=True, check=True,
                                      env=ENVIRONMENT) for start in ([], ["mpirun", "-n", "3"]))
    assert alone.stdout.count("\n") == 2 * lines.count("\n") and alone.stdout == together.stdout
    wrong = subprocess.run(["mpirun", "-n", "3", *command], input=lines.encode() + b"\xff\n", capture_output=True,
                           env=ENVIRONMENT)
    assert wrong.returncode == 1 and wrong.stdout.decode() == alone.stdout, wrong
    place = f"standard input:{lines.count(chr(10)) + 1}: byte 1 of the line (0xFF) is not UTF-8"
    assert place in wrong.stderr.decode(), wrong.stderr


def check_refusals(program, directory):
    out = [str(directory / "train.tsv"), "--out", str(directory / "refused")]
    [line] = errors_of(2, program, "train", *out)
    assert line.startswith("attune: worker 0 of 2 on ") and line.endswith("2 workers cannot share a batch of 1 shard"), line
    [line] = errors_of(1, program, "train", "--shards", "2", *out, "--rate", "0.001",
                       ":", "-n", "1", program, "train", "--shards", "2", *out, "--rate", "0.002")
    assert "worker 1 of 2 on" in line and "rate = 0.002" in line and "rate = 0.001" in line, line
    [line] = errors_of(2, program, "train", *out, "--seeds", "2")
    assert "--seeds: expected one process, but mpirun started 2 workers" in line, line
    [line] = errors_of(1, program, "train", *out[:2], "a", ":", "-n", "1", program, "train", *out[:2], "b")
    assert "worker 1 of 2 on" in line and "has out = b" in line and "has out = a" in line, line
    alone = subprocess.run([program, "train", *out], env=dict(ENVIRONMENT, OMPI_COMM_WORLD_SIZE="2"), text=True,
                           capture_output=True)  # as if started by another MPI's mpirun
    assert alone.returncode == 1 and "2 processes were started, but MPI connects none of them" in alone.stderr, alone
    assert not (directory / "refused" / "last.safetensors").exists()


def check_other_commands(program, directory):
    """Errors of one worker end all: none waits for another."""
    best, pairs = str(directory / "sentences-once" / "best.safetensors"), str(directory / "train.tsv")
    for command in (["score", pairs, "--model", best], ["align", pairs, "--model", best, "--format", "pharaoh"],
                    ["evaluate", pairs, "--model", best], ["report", pairs, "--model", best],
                    ["compare", pairs, "--model", best, "--model", best], ["inspect", best],
                    ["average", best, best, "--out", str(directory / "mean.safetensors")], ["score", "--help"], ["--version"]):
        subprocess.run(["mpirun", "-n", "2", program, *command], env=ENVIRONMENT, check=True, timeout=600,
                       stdout=subprocess.DEVNULL)


def check_other_directory(program, directory):
    """Workers that cannot see the files of the first one."""
    (directory / "elsewhere").mkdir()
    command = [program, "train", str(directory / "train.tsv"), "--out", "own", "--shards", "2", "--steps", "2"]
    both = subprocess.run(["mpirun", "-n", "1", "-wdir", str(directory), *command, ":", "-n", "1",
                           "-wdir", str(directory / "elsewhere"), *command], env=ENVIRONMENT, timeout=600, text=True,
                          check=True, capture_output=True)
    assert "own/best.safetensors" in both.stdout and not (directory / "own" / "report.html").exists(), both


def check_signal(program, directory):
    """A signal abandons an update that takes seconds; the weights before it are saved."""
    out = directory / "signalled"
    process = start(2, program, "train", str(directory / "train.tsv"), "--out", str(out), "--shards", "2", "--threads", "1",
                    "--hidden", "1024", "--batch", "1200")
    while "2 workers of 1 thread" not in process.stdout.readline():
        assert process.poll() is None
    for worker in workers_of(process.pid):
        os.kill(worker, signal.SIGTERM)
    output, _ = process.communicate(timeout=600)
    assert "stopped after 0 steps" in output and (out / "last.safetensors").exists(), output


def check_other_data(program, directory, draw):
    """The second worker reads a different file with the same name in its own directory."""
    other = directory / "other"
    other.mkdir(exist_ok=True)
    os.chdir(directory)
    for place in directory, other:
        kill_resume.write_pairs(place, "valid", 40, draw)
    train = [program, "train", "--shards", "2", "--out", str(directory / "refused"), "--steps=5",
             f"--train={directory}/train.tsv", "--valid=valid.tsv"]
    [line] = errors_of(1, *train, ":", "-n", "1", "-wdir", str(other), *train)
    assert "worker 1 of 2 on" in line and " has validation_data = " in line and line.endswith(" of valid.tsv"), line
    model = directory / "words-once" / "best.safetensors"
    evaluate = [program, "evaluate", "valid.tsv", "--model", str(model)]
    [line] = errors_of(1, *evaluate, ":", "-n", "1", "-wdir", str(other), *evaluate)
    assert "valid.tsv: worker 1 of 2 on" in line and "has the fingerprint" in line, line
    for place, name in (directory, "words-once"), (other, "words-2"):
        (place / "model").symlink_to(directory / name)
    predict = [program, "predict", "--model", "model/last.safetensors", "--file", str(directory / "valid.tsv")]
    (other / "model").unlink()
    (other / "model").symlink_to(directory / "sentences-once")
    [line] = errors_of(1, *predict, ":", "-n", "1", "-wdir", str(other), *predict)
    assert "--model: worker 1 of 2 on" in line and "has the checksum" in line, line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        directory, program = pathlib.Path(temporary), arguments.program
        for task in kill_resume.TASKS:
            check_training(program, task, directory, arguments.kills, draw)
        check_predictions(program, directory)
        check_other_commands(program, directory)
        check_other_directory(program, directory)
        check_refusals(program, directory)
        check_signal(program, directory)
        check_other_data(program, directory, draw)


if __name__ == "__main__":
    main()
