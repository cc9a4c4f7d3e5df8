"""dates and papers, as a reader runs them: what they print, write and say of mistakes.

Run with the two programs.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

# Of the weights of dates after 20 steps, on every CPU with fused multiply-adds.
CHECKSUM = "8e14f754e1968d0a"


def main():
    dates, papers = (str(pathlib.Path(program).resolve()) for program in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as directory:
        def run(*command, status=0, **environment):
            result = subprocess.run(command, cwd=directory, capture_output=True, text=True,
                                    env=os.environ | environment)
            assert result.returncode == status, (command, result)
            assert status == 0 or result.stderr.count("\n") == 1, result.stderr  # one clear line
            return result.stdout if status == 0 else result.stderr

        assert "without arguments, dates trains" in run(dates, "3 May 79", status=1)
        assert "expected, not '0'" in run(dates, "--steps", "0", status=1)
        refused = run(dates, status=1, ATTUNE_TARGET="none")
        targets = re.search(r"have: ((\w+(, )?)+)(in |$)", refused)[1].strip(", ").split(", ")
        for target, threads in [(target, threads) for target in targets for threads in "13"]:
            printed = run(dates, "--steps", "20", ATTUNE_TARGET=target, ATTUNE_THREADS=threads)
            fuses = target.startswith(("avx", "neon"))
            assert (CHECKSUM in printed) == ("on any CPU" in printed) == fuses, (target, printed)
        trained = run(dates, "--steps", "300")
        assert "Wednesday June 27 2001 -> 2001-06-27" in trained, trained
        assert "<svg" in (pathlib.Path(directory) / "build/quickstart/report.html").read_text()
        read = run(dates, "  3 may  2004 ", "05/03/2001")
        assert "3 may 2004 -> 2004-05-03" in read and "05/03/2001 -> 2001-05-03" in read, read
        assert "'é'" in run(dates, "3 février", status=1)

        draw, pairs = random.Random(1), pathlib.Path(directory) / "pairs.tsv"
        words = dict(eins="one", zwei="two", drei="three", vier="four", acht="eight", zehn="ten")
        chosen = [draw.choices(list(words), k=draw.randint(2, 5)) for _ in range(600)]
        pairs.write_text("".join(f"{' '.join(c)}\t{' '.join(words[w] for w in c)}\n" for c in chosen))
        for model in "bahdanau", "luong":
            printed = run(papers, model, pairs, "12", "weights.safetensors")
            bleu = [float(line.split()[-1]) for line in printed.splitlines() if "  BLEU " in line]
            assert len(bleu) == 12 and max(bleu) > 60 and "▒" in printed, printed
            # The weights that were read back are those of the best epoch.
            assert f"BLEU {max(bleu):.2f}, are in weights.safetensors" in printed, printed
        (pathlib.Path(directory) / "bad.tsv").write_text("a b\nc\td\n")
        assert "bad.tsv:1: one column" in run(papers, "luong", "bad.tsv", status=1)
        (pathlib.Path(directory) / "same.tsv").write_text("a b\tc\n" * 40)
        assert "all pairs have one source" in run(papers, "luong", "same.tsv", status=1)
        assert "'gpt' is not one of bahdanau, nematus, luong" in run(papers, "gpt", "pairs.tsv", status=1)


main()
