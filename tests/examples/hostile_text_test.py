#!/usr/bin/env python3
"""Control characters and markup in the contents and names of files must be escaped in all output.

    tests/examples/hostile_text_test.py build/examples/{attune,speech}

Words, transcripts, directories and the metadata of a checkpoint have the same hostile text.
Each command is run on them; its outputs and the reports, tables and logs that it writes are searched.
"""
import array, json, math, os, pathlib, re, struct, subprocess, sys, tempfile, wave

CONTROLS, TAG = "\x1b[31m\x9b\u202e\x7f", "</script><i>"
HOSTILE = CONTROLS + TAG
# All control characters except line breaks and TABs.
RAW = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
# Except the isolates U+2068 and U+2069, which enclose texts in captions. Plain predictions and scores in
# a pipe may contain bidirectional marks, which some languages need.
DIRECTION = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066\u2067]")
PLAIN = re.compile(r"(predict|score)(?!.*--json)")
WRITTEN = {".html", ".json", ".jsonl", ".svg", ".TextGrid", ".tsv", ".txt"}
SIZES = "--hidden 8 --attention 8 --batch 4 --steps 2 --validate-every 1"
WORDS = f"{SIZES} --tokens words --embedding 8 --readout 8 --encoder-layers 1 --dropout 0"
TABLE = "--look-back 4 --horizon 2 --segment 2 --hidden 8 --steps 2"

# Paths are relative to a directory with a hostile name; {0} is that directory.
COMMANDS = {
    "attune": [
        f"train {{0}}/pairs.tsv --valid {{0}}/pairs.tsv --out {{0}}/out {WORDS}",
        f"train --resume --out {{0}}/out --steps 3",
        "train pairs.tsv --valid none --out {0}/new",
        "train broken.tsv --valid pairs.tsv --out new",
        *(f"predict {more} --model {{0}}/out --file sources.txt" for more in (
            "", "--json", "--format text", "--replace-unknown")),
        "evaluate {0}/pairs.tsv --model out", "evaluate {0}/pairs.tsv --model out --json",
        *(f"align pairs.tsv --model out --format {form}" for form in ("terminal", "json", "pharaoh")),
        *(f"align pairs.tsv --model out --out out/align.{form}" for form in ("html", "json", "txt")),
        "align one.tsv --model out --out out/align.svg",
        "align {0}/broken.tsv --model {0}/none", "align {0}/none --model {0}/out",
        "score pairs.tsv --model out", "score pairs.tsv --model out --json",
        "compare pairs.tsv --model {0}/out --model {0}/out/last.safetensors",
        "compare pairs.tsv --json --model {0}/out --model {0}/out/last.safetensors",
        "report {0}/pairs.tsv --model {0}/out --out {0}/out/pairs.html",
        "average {0}/out/best.safetensors {0}/out/last.safetensors --out {0}/out/mean.safetensors",
        "inspect {0}/out", "inspect --json {0}/out", "inspect spoilt.safetensors", "inspect --json spoilt.safetensors",
        "report pairs.tsv --model {0}/spoilt.safetensors --out out/spoilt.html"],
    "forecast": [
        f"train {{0}}/table.csv --weights {{0}}/out/best.safetensors {TABLE}",
        "train broken.csv", "train {0}/table.csv --weights {0}/none/none --score {0}",
        *(f"{command} {{0}}/{name}.csv --weights {{0}}/out/best.safetensors"
          for command in ("predict", "evaluate") for name in ("table", "other", "none")),
        "predict table.csv --weights {0}/spoilt.safetensors", "predict table.csv --weights {0}/none"],
    "speech": [
        "train {0}/list.tsv {0}/list.tsv --model {0}/out/best.safetensors --hidden 8 --steps 2",
        "train list.tsv none --model {0}/out/none", "train broken.tsv list.tsv",
        f"recognise {{0}}/{CONTROLS}.wav {{0}}/two.wav --model {{0}}/out/best.safetensors",
        "recognise none.wav broken.tsv --model out/best.safetensors",
        *(f"evaluate {{0}}/{name}.tsv --model out/best.safetensors" for name in ("list", "two", "broken")),
        "recognise two.wav --model {0}/spoilt.safetensors", "recognise two.wav --model {0}/none"],
    "long_sentences": [
        "--steps 1 --hidden 8 --models encoder-decoder --out {0}/out",
        "--steps 1 --hidden 8 --models {0} --out {0}/out"],
}


def write_recording(path, hertz, rate=8000):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(array.array("h", (int(9000 * math.sin(hertz * i / rate * 6.28)) for i in range(rate // 2))))


def write_inputs(directory):
    pairs = [f"one {HOSTILE} {word}\tEINS {HOSTILE} {word}" for word in ("a", "b", "c", "d")]
    table = [f"2024-01-{1 + n // 24:02} {n % 24:02}:00,{n % 7},{n % 5}" for n in range(240)]
    for name, text in {
        "pairs.tsv": pairs, "one.tsv": pairs[:1], "broken.tsv": [HOSTILE, f"{HOSTILE}\t\t{HOSTILE}"],
        "sources.txt": [f"one {HOSTILE} never{HOSTILE}"],
        "list.tsv": [f"{CONTROLS}.wav\tone {HOSTILE}", f"two.wav\ttwo {HOSTILE}"],
        "two.tsv": [f"two.wav\ttwo never{HOSTILE}"],
    }.items():
        (directory / name).write_text("\n".join(text) + "\n", encoding="utf-8")
    write_recording(directory / f"{CONTROLS}.wav", 300, rate=16000)
    write_recording(directory / "two.wav", 500)


def spoil(source, target):
    """Saves a checkpoint with hostile metadata entries and without a checksum."""
    data = source.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = {name: value for name, value in header["__metadata__"].items() if not name.startswith("attune.checksum")}
    header["__metadata__"] = metadata | {name: HOSTILE for name in (HOSTILE, "attune_version")}
    text = json.dumps(header).encode()
    target.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size:])


def check(what, data, plain=False):
    text = data.decode("utf-8")
    found = RAW.search(text) or not plain and DIRECTION.search(text)
    assert not found, f"{what}: {text[max(0, found.start() - 60):found.end() + 30]!a}"
    is_markup = text.startswith(("<!DOCTYPE", "<svg"))
    assert not (is_markup and TAG in text), f"{what}: {TAG}"


def check_program(program, directory):
    directory.mkdir(parents=True)
    write_inputs(directory)
    if program.name in ("speech", "forecast"):
        (directory / "out").mkdir()
    succeeded = 0
    for command in COMMANDS[program.name]:
        process = subprocess.run([program, *(word.replace("{0}", str(directory)) for word in command.split())],
                                 cwd=directory, env=dict(os.environ, ATTUNE_THREADS="1"), capture_output=True)
        assert process.returncode in (0, 1), f"{program.name} {command!a}: {process.returncode}"
        succeeded += process.returncode == 0
        check(f"{program.name} {command!a}", process.stdout, PLAIN.match(command))
        check(f"{program.name} {command!a}", process.stderr)
        best = directory / "out/best.safetensors"
        if best.exists() and not (directory / "spoilt.safetensors").exists():
            spoil(best, directory / "spoilt.safetensors")
    written = [path for path in directory.glob("*/**/*") if path.suffix in WRITTEN]
    for path in written:
        check(path.name, path.read_bytes())
    return succeeded, len(written)


with tempfile.TemporaryDirectory() as scratch:
    succeeded, files = check_program(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(scratch) / HOSTILE)
    assert succeeded > 25, succeeded
    print(f"{succeeded} commands succeeded, {files} files were searched")
