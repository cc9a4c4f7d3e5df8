#!/usr/bin/env python3
"""Mutation testing: inserts one mutation at a time into the library and checks that the tests fail.

    tests/faults/run.py build [NAME]            all mutations, or those whose name contains NAME
    tests/faults/run.py --fit                   only checks that every mutation matches the sources

Each mutation of faults.py is a small change of one file. A copy of the file is compiled, and the
library is linked with it. The tests of the file's layer and of higher layers run with this library
until one fails. The tree and the build directory do not change. A mutation is also detected if a test
exceeds its time limit.
"""
import json, os, pathlib, shlex, shutil, subprocess, sys, tempfile, time

from faults import FAULTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ["tensor", "autograd", "nn", "models"]
# Excluded tests, which are slow and detect few mutations.
SLOW = {"tensor": "-tce=*interrupted*",
        "models": "-tce=papers: gradients of every score*"}


def unmatched_faults():
    """The mutations whose original code does not occur exactly once, because the sources have changed."""
    return [f"{path}: {name}" for name, path, old, _ in FAULTS if (ROOT / path).read_text().count(old) != 1]


def overlay(directory, fault):
    """Creates a copy of the fault's layer: links to its files, and the mutated file."""
    _, name, old, new = fault
    path = pathlib.Path(name)
    layer = path.parts[0]
    for file in (ROOT / layer).rglob("*"):
        if file.is_file():
            link = directory / "attune" / file.relative_to(ROOT)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(file)
    changed = directory / "attune" / path
    changed.unlink()
    changed.write_text((ROOT / path).read_text().replace(old, new))


def sources_to_compile(name, commands):
    """A source: itself. An .inc file: the sources that contain its name. A header: the sources in its folder."""
    if name.endswith(".inc"):
        return [source for source in commands if source.split("/")[0] in LAYERS and name in (ROOT / source).read_text()]
    folder = [str(path.relative_to(ROOT)) for path in (ROOT / name).parent.glob("*.cpp")]
    return [name] if name.endswith(".cpp") else [source for source in folder if source in commands]


def library(build, directory, fault, commands):
    """Builds the library with the fault; returns its path."""
    overlay(directory, fault)
    objects = {}
    for source in sources_to_compile(fault[1], commands):
        command = [word for word in shlex.split(commands[source]["command"]) if pathlib.Path(word).name != "ccache"]
        output = command[command.index("-o") + 1]
        objects[output] = str(directory / output.replace("/", "."))
        command[command.index("-o") + 1] = objects[output]
        command[command.index("-MF") + 1] = str(directory / "depends")
        changed = directory / "attune" / source
        command[-1] = str(changed if changed.exists() else ROOT / source)
        run([command[0], f"-I{directory}", "-w", *command[1:]], build)
    shared = (build / "libattune.so").resolve().name  # with its version
    link = shlex.split(subprocess.run(["ninja", "-t", "commands", shared], cwd=build, check=True,
                                      capture_output=True, text=True).stdout.splitlines()[-1].split("&&")[-1])
    words = []
    for word in link:
        if word.endswith(".a") and pathlib.Path(word).stem.removeprefix("lib") in LAYERS:
            parts = sorted(str(o.relative_to(build)) for o in build.glob(f"{word}.p/*.o"))
            assert parts, f"{word} has no objects in {build}"
            words += [objects.pop(part, part) for part in parts]
        else:
            words.append(word)
    assert not objects, f"the library does not contain {', '.join(objects)}"
    words = [word for word in words if pathlib.Path(word).name != "ccache"]
    words[words.index("-o") + 1] = str(directory / "libattune.so")
    run(words, build)
    return directory / "libattune.so"


def run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def commands_of(build, layer, preload):
    """Yields the commands of the layer's tests, each with its environment variables."""
    options = ["--abort-after=1", "--no-colors=true"]
    library = {"LD_PRELOAD": str(preload)} if preload else {}
    yield [str(build / f"tests/{layer}/{layer}_test"), *options, SLOW.get(layer, "-tce=")], library
    if layer == "nn" and shutil.which("mpirun"):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        given = [word for name, value in library.items() for word in ("-x", f"{name}={value}")]
        yield ["mpirun", "-n", "3", *given, str(build / "tests/nn/workers_test"), *options], root


def test(build, layer, preload=None, seconds=None):
    """Runs the layer's tests, each for at most `seconds`. Returns the failure, or "" if all pass."""
    for command, environment in commands_of(build, layer, preload):
        try:
            done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True,
                                  errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            return "time limit exceeded"
        assert done.returncode != 127, done.stderr  # the library cannot be loaded
        if done.returncode != 0:
            before = done.stdout.partition("ERROR:")[0]  # doctest also names test cases that only print
            cases = [line.strip() for line in before.splitlines() if line.startswith("TEST CASE:")]
            return cases[-1].removeprefix("TEST CASE:").strip() if cases else f"status {done.returncode}"
    return ""


def layers_to_test(name):
    return LAYERS[LAYERS.index(pathlib.Path(name).parts[0]):]


def main(build, wanted=""):
    missing = unmatched_faults()
    print(*missing, f"{len(FAULTS) - len(missing)} of {len(FAULTS)} mutations match the sources", sep="\n")
    if missing or build == "--fit":
        return 1 if missing else 0
    build = pathlib.Path(build).resolve()
    entries = json.loads((build / "compile_commands.json").read_text())
    commands = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT): entry for entry in entries}
    chosen = [fault for fault in FAULTS if wanted in fault[0]]
    seconds = {}
    for layer in sorted({layer for fault in chosen for layer in layers_to_test(fault[1])}, key=LAYERS.index):
        start = time.monotonic()
        failure = test(build, layer)
        assert not failure, f"the tests of {layer} fail without a mutation: {failure}"
        seconds[layer] = 60 + 2 * (time.monotonic() - start)
    missed = 0
    for number, fault in enumerate(chosen, 1):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            built = library(build, pathlib.Path(name), fault, commands)
            failures = (test(build, layer, built, seconds[layer]) for layer in layers_to_test(fault[1]))
            detected = next(filter(None, failures), "")
        missed += not detected
        print(f"{number:2}/{len(chosen)} {fault[1]:26} {fault[0]}: {detected or 'NOT DETECTED'}"
              f" ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutations were detected")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
