"""Which files may include which.

* A layer can include itself and lower layers; including a higher layer does not compile. The order is
  tensor <- autograd <- nn <- models. For each pair of layers, the test compiles an include of one
  layer's header with the compiler flags of the other layer.
* In tensor/, includes follow the list in CONTRIBUTING.md.
* Headers and macros of an operating system are in sources that end with _posix or _windows.

Argument: the build directory.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

LAYERS = {
    "tensor": "tensor.hpp",
    "autograd": "var.hpp",
    "nn": "layers.hpp",
    "models": "papers.hpp",
}


def flags_of(layer, commands):
    """The command that compiles a source of the layer, without source and output; its directory."""
    for command in commands:
        path = pathlib.Path(command["file"])
        if path.parent.name == layer and path.parent.parent.name != "tests" and "tests" not in path.parts:
            words = shlex.split(command["command"])
            words = words[: words.index("-o")] + ["-fsyntax-only", "-x", "c++", "-"]
            drop = {"-MD", "-MQ", "-MF"}
            kept, skip = [], False
            for word in words:
                if skip:
                    skip = False
                elif word in drop:
                    skip = word != "-MD"
                else:
                    kept.append(word)
            return kept, command["directory"]
    raise SystemExit(f"no source of {layer} is compiled")


def entries_of(contributing):
    """The code block below the heading "Order of the files in tensor/"."""
    section = contributing.split("## Order of the files in tensor/")[1].split("\n## ")[0]
    return [name for line in section.split("\n") if line.startswith("    ") for name in line.split()]


def check_order(source):
    """The includes in tensor/ that do not follow the list."""
    entries = entries_of((source / "CONTRIBUTING.md").read_text())
    failed, found = [], set()
    for path in sorted((source / "tensor").rglob("*.[chi][pn][pc]")):
        name = path.relative_to(source / "tensor")
        entry = str(name.with_suffix(""))
        if entry == "pch/pch":
            continue
        found.add(entry)
        for other in re.findall(r"#include <attune/tensor/(\S+)\.\w+>", path.read_text()):
            if entry not in entries or other not in entries or entries.index(other) > entries.index(entry):
                failed.append(f"tensor/{name} includes {other}, which is not before it in CONTRIBUTING.md")
            if name.suffix == ".hpp" and other.startswith("kernels/") and not entry.startswith("kernels/"):
                failed.append(f"tensor/{name} is a public header and includes {other}")
    failed += [f"tensor/{entry} is not in the list of CONTRIBUTING.md" for entry in found.difference(entries)]
    return failed + [f"tensor/{entry} does not exist" for entry in set(entries).difference(found)]


def check_platform(source):
    """Files other than *_posix.cpp and *_windows.cpp that depend on the operating system; tests may include its headers."""
    headers = r"#include <(unistd|fcntl|sys/(?!single_threaded)|pthread|sched|signal|dlfcn|poll|termios|windows|io.h|mach)"
    macros = r"#.*\b(_WIN32|__linux__|__APPLE__|__unix__|__GLIBC__|__MINGW\w+|_MSC_VER)\b"
    failed = []
    for folder in [*LAYERS, "examples", "tests", "bench"]:
        pattern = re.compile(macros if folder in ("tests", "bench") else headers + "|" + macros)
        failed += [f"{path.relative_to(source)} depends on the operating system: use tensor/platform.hpp"
                   for path in sorted((source / folder).rglob("*.[ch]pp"))
                   if not path.stem.endswith(("_posix", "_windows", "libcxx")) and pattern.search(path.read_text())]
    return failed


def main():
    build = pathlib.Path(sys.argv[1])
    commands = json.loads((build / "compile_commands.json").read_text())
    failed = []
    names = list(LAYERS)
    for position, layer in enumerate(names):
        flags, directory = flags_of(layer, commands)
        for other_position, other in enumerate(names):
            source = f"#include <attune/{other}/{LAYERS[other]}>\n"
            compiles = subprocess.run(flags, cwd=directory, input=source, text=True, capture_output=True).returncode == 0
            if compiles != (other_position <= position):
                failed.append(f"{layer} including <attune/{other}/{LAYERS[other]}>: compiles = {compiles}")
    source = pathlib.Path(__file__).resolve().parents[2]
    failed += check_order(source) + check_platform(source)
    print("\n".join(failed) or "layers: only the allowed includes compile")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
