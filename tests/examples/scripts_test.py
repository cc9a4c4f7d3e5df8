"""End-to-end tests of dates, papers and gpt: output, files, errors.

Arguments: the programs.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

# Checksum of the weights of dates after 20 steps, on every CPU with fused multiply-adds.
CHECKSUM = "dcff44fbf90d1695"


def main():
    dates, papers, gpt = (str(pathlib.Path(program).resolve()) for program in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as directory:
        def run(*command, status=0, **environment):
            result = subprocess.run(command, cwd=directory, capture_output=True, text=True,
                                    env=os.environ | environment)
            assert result.returncode == status, (command, result)
            assert status == 0 or result.stderr.count("\n") == 1, result.stderr  # one clear line
            return result.stdout if status == 0 else result.stderr

        assert "run dates without arguments to train" in run(dates, "3 May 79", status=1)
        assert "--steps: '0' is not a whole number" in run(dates, "--steps", "0", status=1)
        refused = run(dates, status=1, ATTUNE_TARGET="none")
        targets = re.search(r"which have ((\w+(, )?)+)(in |$)", refused)[1].strip(", ").split(", ")
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
        assert "--steps: has no effect without training" in run(dates, "3 May 79", "--steps", "9", status=1)
        def warned(*command):
            return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stderr
        for wrong in "not a date", "31 February 2001":
            assert f"warning: '{wrong}' may not be a date" in warned(dates, wrong)
        assert warned("sh", "-c", 'ulimit -s 64; ATTUNE_THREADS=2 exec "$0" --steps 5', dates) == ""

        draw, pairs = random.Random(1), pathlib.Path(directory) / "pairs.tsv"
        words = dict(eins="one", zwei="two", drei="three", vier="four", acht="eight", zehn="ten")
        chosen = [draw.choices(list(words), k=draw.randint(2, 5)) for _ in range(600)]
        pairs.write_text("".join(f"{' '.join(c)}\t{' '.join(words[w] for w in c)}\n" for c in chosen))
        for model in "bahdanau", "luong":
            printed = run(papers, model, pairs, "--epochs", "12", "--weights", "weights.safetensors")
            bleu = [float(line.split()[-1]) for line in printed.splitlines() if "  BLEU " in line]
            assert len(bleu) == 12 and max(bleu) > 60 and "▒" in printed, printed
            # The loaded weights are those of the best epoch.
            assert f"BLEU {max(bleu):.2f}, are in weights.safetensors" in printed, printed
            assert re.search(r"\n\w+( \w+)* -> \w+( \w+)*\nAttention: rows are target words", printed), printed
        (pathlib.Path(directory) / "whole.tsv").write_text("".join(f"{i % 7} {i}\t{i}-{i % 9}\n" for i in range(200)))
        assert "whole.tsv: target: 190 of 190 words are different" in warned(papers, "encoder_decoder", "whole.tsv", "--epochs", "1")
        assert "MODEL: bahdanau nematus luong" in run(papers, "--help") and "--help" in run(papers, "luong", status=1)
        (pathlib.Path(directory) / "bad.tsv").write_text("a b\nc\td\n")
        assert "bad.tsv:1: one column" in run(papers, "luong", "bad.tsv", status=1)
        (pathlib.Path(directory) / "same.tsv").write_text("a b\tc\n" * 40)
        assert "all pairs have the same source" in run(papers, "luong", "same.tsv", status=1)
        # A text in which 90 % of the letters follow from the letter before.
        text = "".join(draw.choice("abcdefgh") if draw.random() < 0.1 else "bcdefgha"[i % 8] for i in range(30000))
        (pathlib.Path(directory) / "text").write_text(text)
        small = [gpt, "text", "--layers", "1", "--width", "32", "--context", "16", "--steps", "200"]
        printed = [run(*small, ATTUNE_THREADS=threads) for threads in "13"]
        loss = [float(re.search(r"validation loss (\S+)", one)[1]) for one in printed]
        assert loss[0] == loss[1] < 0.9, printed  # the first letters of a window are uncertain
        assert re.search("----\n.*(bcde|efgh)", printed[0]), printed[0]
        assert "usage: gpt TEXT" in run(gpt, "-h") == run(gpt, "--help")
        with open("/dev/full", "w") as full:
            assert subprocess.run([gpt, "--help"], stdout=full, stderr=subprocess.DEVNULL).returncode == 1
        for mistake in ["--context", "1"], ["--width", "2.5"], ["--steps", "0"], ["--batch", "1e30"], ["--rate", "x"], ["--what", "1"]:
            assert mistake[0] in run(gpt, "text", *mistake, status=1)
        assert "5 heads do not divide" in run(gpt, "text", "--heads", "5", status=1)
        for out in "text", "weights":
            assert "--out: " in run(gpt, "text", "--out", out, status=1)
        for command in [gpt, "text", "--out"], [papers, "luong", "pairs.tsv", "--weights"]:
            assert "cannot be written: No such" in run(*command, "nowhere/weights.safetensors", status=1)
        for last, why in (["--out"], "--out: the value is missing"), (["--out", "--steps", "3"], "--out: the value"), (["--stepz"], "did you mean --steps?"):
            assert why in run(gpt, "text", *last, status=1)
        assert "is also read or written by this program" in run(papers, "luong", "same.tsv", "--weights", "same.tsv", status=1)
        weights = pathlib.Path(directory) / "gpt.safetensors"
        texts = [run(gpt, weights, "--seed", seed) for seed in "12"]
        assert texts[0] in printed[0] and texts[1] not in printed[0], texts
        continued = run(gpt, weights, "--prompt", "cdefg")
        assert continued.count("----\ncdefg") == 4 and continued.count("cdefgh") > 1, continued
        others = [run(gpt, weights, "--prompt", prompt).split("----\n" + prompt) for prompt in ("aaag", "fffg")]
        assert others[0] != others[1], others  # all of the prompt is read
        assert "--prompt: 'x' is not in the text" in run(gpt, weights, "--prompt", "ax", status=1)
        assert "--prompt: 16 characters, expected fewer than the 16" in run(gpt, weights, "--prompt", 16 * "a", status=1)
        assert "--layers: gpt.safetensors was trained with '1'" in run(gpt, "gpt.safetensors", "--layers", "7", status=1)
        data = weights.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        for context in b"1", b"999999999", b"x":
            header = data[8:end].replace(b"attune.checksum", b"checksum").replace(b'"context":"16"', b'"context":"%s"' % context)
            weights.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])
            assert f"gpt.safetensors: context: '{context.decode()}' is not" in run(gpt, weights, status=1)
        (pathlib.Path(directory) / "short").write_text("abc")
        assert "short: 3 characters are too few" in run(gpt, "short", status=1)
        assert "'gpt' is not one of bahdanau, nematus, luong" in run(papers, "gpt", "pairs.tsv", status=1)


main()
