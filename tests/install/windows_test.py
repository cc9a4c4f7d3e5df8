"""The programs for Windows, run by Wine: training, files, paths, signals.

Argument: the build directory.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

CHECKS = []
NUMBERS = "numbers of größe 数.tsv"


def check(function):
    CHECKS.append(function)
    return function


class Programs:
    def __init__(self, build, directory):
        self.build, self.directory = build, directory

    def start(self, program, *arguments):
        return subprocess.Popen(["wine", self.build / "examples" / f"{program}.exe", *arguments], cwd=self.directory,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, program, *arguments, status=0, stdin=""):
        process = self.start(program, *arguments)
        out, err = (text.decode() for text in process.communicate(stdin.encode(), timeout=600))
        assert process.returncode == status, (program, arguments, process.returncode, out, err)
        assert "\r" not in out + err, (out, err)
        return out if status == 0 else err

    def wait_for(self, name, training):
        path = self.directory / name
        while not (path.exists() and path.stat().st_size > 0):
            assert training.poll() is None, training.communicate()
            time.sleep(0.1)


@check
def trains_predicts_and_reports_with_unicode_paths(programs):
    """Paths and arguments with blanks and characters of several scripts; no CR in any file."""
    out = "modèle 数"
    programs.run("attune", "train", NUMBERS, "--out", out, "--hidden", "32", "--steps", "100")
    predicted = programs.run("attune", "predict", "--model", out, "1 2", stdin="")
    assert predicted.count("\n") == 1, predicted
    assert programs.run("attune", "predict", "--model", out, stdin="1 2\r\n") == predicted
    evaluated = programs.run("attune", "evaluate", NUMBERS, "--model", out, "--json")
    assert evaluated.startswith("{"), evaluated
    programs.run("attune", "report", "--model", out, "--out", "bericht für 数.html")
    written = [path for path in programs.directory.rglob("*") if path.is_file()]
    assert {"best.safetensors", "bericht für 数.html"} <= {path.name for path in written}, written
    for path in written:
        assert path.suffix == ".safetensors" or b"\r" not in path.read_bytes(), path


@check
def a_killed_training_resumes_to_the_same_weights(programs):
    steps = "--hidden", "32", "--validate-every", "20", "--steps", "200"
    programs.run("attune", "train", NUMBERS, "--out", "whole", *steps)
    killed = programs.start("attune", "train", NUMBERS, "--out", "parts", *steps)
    programs.wait_for("parts/last.safetensors", killed)
    killed.kill()
    killed.communicate()
    programs.run("attune", "train", NUMBERS, "--out", "parts", *steps, "--resume")
    whole, parts = (programs.run("attune", "predict", "--model", out, "--best", "5", "7 7 7") for out in ("whole", "parts"))
    assert whole == parts, (whole, parts)


@check
def a_directory_in_use_is_refused_and_ctrl_c_saves(programs):
    """The lock names its owner; Ctrl-C ends a training with status 130 and a checkpoint; it can be resumed."""
    training = programs.start("attune", "train", NUMBERS, "--out", "long", "--hidden", "32", "--steps", "1000000")
    programs.wait_for("long/log.jsonl", training)
    refused = programs.run("attune", "train", NUMBERS, "--out", "long", "--steps", "10", status=1)
    assert "is in use by process" in refused, refused
    training.send_signal(signal.SIGINT)
    out, err = training.communicate(timeout=60)
    assert training.returncode == 130, (training.returncode, out, err)
    assert (programs.directory / "long" / "last.safetensors").exists()
    assert not (programs.directory / "long" / "attune.lock").exists()


@check
def mistakes_are_one_line_with_status_1(programs):
    for arguments, text in ((["predict", "--model", "nicht da"], "nicht da"), (["train", "fehlt.tsv"], "fehlt.tsv"),
                            (["train", NUMBERS, "--seeds", "2", "--steps", "1", "--out", "s"], "Windows")):
        error = programs.run("attune", *arguments, status=1)
        assert error.count("\n") == 1 and text in error, error


@check
def papers_and_gpt_train(programs):
    assert "BLEU" in programs.run("papers", "luong", "words.tsv", "--epochs", "2")
    (programs.directory / "text.txt").write_text("to be or not to be, that is the question. " * 200)
    assert programs.run("gpt", "text.txt", "--out", "gpt.safetensors", "--steps", "20")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    os.environ.setdefault("WINEDEBUG", "-all")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="attune test ") as directory:
        programs = Programs(build, pathlib.Path(directory))
        (programs.directory / NUMBERS).write_text(
            "".join(f"{i % 10} {i // 10}\t{i // 10}-{i % 10}\n" for i in range(400)), encoding="utf-8")
        words = ("eins one", "zwei two", "drei three", "vier four")
        (programs.directory / "words.tsv").write_text(
            "".join("{} {}\t{} {}\n".format(*(words[i % 4].split()[0], words[i // 4 % 4].split()[0], words[i % 4].split()[1],
                                              words[i // 4 % 4].split()[1])) for i in range(200)))
        for one in CHECKS:
            try:
                one(programs)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f"{one.__name__}: {type(error).__name__}: {error}")
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
