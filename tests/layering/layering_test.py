"""A layer can include itself and lower layers; including a higher layer does not compile. The order is
tensor <- autograd <- nn <- models.

Argument: the build directory. For each pair of layers, the test compiles an include of one layer's
header with the compiler flags of the other layer.
"""
import json
import pathlib
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
    print("\n".join(failed) or "layers: only the allowed includes compile")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
