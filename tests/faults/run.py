#!/usr/bin/env python3
"""Puts one mistake after the other into the library, and checks that the tests notice.

    tests/faults/run.py build [NAME]            all of them, or those whose name has NAME in it
    tests/faults/run.py --fit                   only whether each still has its place in the sources

Each mistake of faults.py is a small change of one file. That file is compiled from a copy, the
library is linked with it, and the tests of its layer, and of those above it until one notices, run
with that library in place of the one they were built with.
The tree and the build directory stay as they are. A test that never ends has noticed, too.
"""
import json, os, pathlib, shlex, shutil, subprocess, sys, tempfile, time

from faults import FAULTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ["tensor", "autograd", "nn", "models"]
# Tests that take long and say little about a mistake.
SLOW = {"tensor": "-tce=*interrupted*",
        "models": "-tce=papers: gradients of every score*"}


def places_missing():
    """The mistakes whose place is not there, or there more than once: the sources have changed."""
    return [f"{path}: {name}" for name, path, old, _ in FAULTS if (ROOT / path).read_text().count(old) != 1]


def overlay(directory, fault):
    """A copy of the fault's layer, of links to its files and of the changed one."""
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
    """The source itself; those that include a table; of a header, those beside it: all of its layer would take minutes."""
    if name.endswith(".inc"):
        return [source for source in commands if source.split("/")[0] in LAYERS and name in (ROOT / source).read_text()]
    beside = [str(path.relative_to(ROOT)) for path in (ROOT / name).parent.glob("*.cpp")]
    return [name] if name.endswith(".cpp") else [source for source in beside if source in commands]


def library(build, directory, fault, commands):
    """The library with the fault in it."""
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
    assert not objects, f"the library is linked without {', '.join(objects)}"
    words = [word for word in words if pathlib.Path(word).name != "ccache"]
    words[words.index("-o") + 1] = str(directory / "libattune.so")
    run(words, build)
    return directory / "libattune.so"


def run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def commands_of(build, layer, preload):
    """Each with the variables of its environment."""
    options = ["--abort-after=1", "--no-colors=true"]
    library = {"LD_PRELOAD": str(preload)} if preload else {}
    yield [str(build / f"tests/{layer}/{layer}_test"), *options, SLOW.get(layer, "-tce=")], library
    if layer == "nn" and shutil.which("mpirun"):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        given = [word for name, value in library.items() for word in ("-x", f"{name}={value}")]
        yield ["mpirun", "-n", "3", *given, str(build / "tests/nn/workers_test"), *options], root


def test(build, layer, preload=None, seconds=None):
    """What the layer's tests say: nothing, where they pass. They are ended after these seconds."""
    for command, environment in commands_of(build, layer, preload):
        try:
            done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True,
                                  errors="replace", timeout=seconds)
        except subprocess.TimeoutExpired:
            return "a test does not end"
        assert done.returncode != 127, done.stderr  # the library cannot be loaded
        if done.returncode != 0:
            before = done.stdout.partition("ERROR:")[0]  # a test case that only prints is named, too
            cases = [line.strip() for line in before.splitlines() if line.startswith("TEST CASE:")]
            return cases[-1].removeprefix("TEST CASE:").strip() if cases else f"status {done.returncode}"
    return ""


def layers_to_test(name):
    return LAYERS[LAYERS.index(pathlib.Path(name).parts[0]):]


def main(build, wanted=""):
    missing = places_missing()
    print(*missing, f"{len(FAULTS) - len(missing)} of {len(FAULTS)} mistakes have their place in the sources", sep="\n")
    if missing or build == "--fit":
        return 1 if missing else 0
    build = pathlib.Path(build).resolve()
    entries = json.loads((build / "compile_commands.json").read_text())
    commands = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT): entry for entry in entries}
    chosen = [fault for fault in FAULTS if wanted in fault[0]]
    seconds = {}
    for layer in sorted({layer for fault in chosen for layer in layers_to_test(fault[1])}, key=LAYERS.index):
        start = time.monotonic()
        said = test(build, layer)
        assert not said, f"the tests of {layer} fail without a fault: {said}"
        seconds[layer] = 60 + 2 * (time.monotonic() - start)
    missed = 0
    for number, fault in enumerate(chosen, 1):
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            built = library(build, pathlib.Path(name), fault, commands)
            said = (test(build, layer, built, seconds[layer]) for layer in layers_to_test(fault[1]))
            noticed = next(filter(None, said), "")
        missed += not noticed
        print(f"{number:2}/{len(chosen)} {fault[1]:26} {fault[0]}: {noticed or 'NOT NOTICED'}"
              f" ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mistakes were noticed")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
