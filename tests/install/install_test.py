"""An installed attune, as users find it: names, headers, pkg-config, CMake, a program that runs.

Run with the build directory; the installation goes to a temporary directory.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from consuming import COMPILER, CONSUMER, install, run, setup_subproject

# What attune is built from, by its folder below /usr/include or its header.
LIBRARIES = ("fmt/", "hwy/", "nlohmann/", "unicode/", "xxhash", "sentencepiece", "openblas", "cblas", "mpi")


def expect(held, what, shown=""):
    if not held:
        sys.exit(f"not so: {what}\n{shown}")


def names_are_attunes(installed):
    library = installed.libraries / "libattune.so"
    names = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    foreign = [name for name in names if not re.match(r"_(ZT[ISTV]|ZGVZ?|ZZ?)NK?6attune", name)]
    expect(len(names) > 500, "the shared library shows the functions of attune", names)
    expect(not foreign, "the shared library shows nothing but attune", "\n".join(foreign))


def headers_need_no_library(installed):
    source = "#include <attune/attune.hpp>\n"
    used = run([*COMPILER, *installed.pkg_config("--cflags"), "-M", "-x", "c++", "-"], input=source).split()
    foreign = [path for path in used if any(f"/{name}" in path for name in LIBRARIES)]
    expect(len(used) > 100, "the preprocessor tells which headers there are", used)
    expect(not foreign, "headers of attune include no other library's", foreign)


def older_standard_is_one_error(installed):
    for standard in ("c++11", "c++17"):
        command = [*COMPILER, f"-std={standard}", *installed.pkg_config("--cflags"), "-fsyntax-only", "-x", "c++", "-"]
        done = subprocess.run(command, input="#include <attune/attune.hpp>\nattune::Tensor x;\n", text=True,
                              capture_output=True)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        expect(done.returncode != 0 and "attune needs C++20" in errors[0], f"-std={standard} is refused", done.stderr)
        expect(len(errors) == 2 and "attune/stop" in errors[1], "nothing is compiled after that", done.stderr)


def another_version_is_refused(work, cmake_config):
    for wanted in ("0.0", "0.99", "1"):
        done = subprocess.run(["cmake", "-S", CONSUMER, "-B", work / f"wants-{wanted}", f"-Dattune_DIR={cmake_config}",
                               f"-DATTUNE_WANTED={wanted}"], text=True, capture_output=True)
        expect(done.returncode != 0 and "requested version" in done.stderr, f"CMake refuses {wanted}", done.stderr)


def a_parent_without_optimisation_gets_a_fast_attune(work):
    def levels(*arguments):
        commands = json.loads((setup_subproject(work, *arguments) / "compile_commands.json").read_text())
        level = lambda command: ([word for word in command.split() if re.fullmatch("-O.", word)] or ["-O0"])[-1]
        ours = {level(command["command"]) for command in commands if "attune" in command["file"]}
        parents = {level(command["command"]) for command in commands if "attune" not in command["file"]}
        return ours, parents

    expect(levels() == ({"-O3"}, {"-O0"}), "attune is compiled with -O3, its parent without", levels())
    slow = levels("-Dattune:subproject_optimization=0")
    expect(slow == ({"-O0"}, {"-O0"}), "attune is compiled without, where that is asked for", slow)
    release = levels("-Doptimization=2", "-Dattune:subproject_optimization=3")  # --wipe keeps the one before
    # Newer versions of meson keep the level of attune's own buildtype.
    expect(release in (({"-O2"}, {"-O2"}), ({"-O3"}, {"-O2"})), "a parent's level is attune's, or -O3", release)


def main():
    build = pathlib.Path(sys.argv[1])
    version = json.loads((build / "meson-info" / "intro-projectinfo.json").read_text())["version"]
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        installed = install(build, work / "installed")
        names_are_attunes(installed)
        headers_need_no_library(installed)
        older_standard_is_one_error(installed)
        expect(installed.pkg_config("--modversion") == [version], "pkg-config has the version of meson.build")
        expect("-lfmt" in installed.pkg_config("--libs", "--static"), "pkg-config --static names what attune uses")
        expect("-lfmt" not in installed.pkg_config("--libs"), "without --static it does not")
        for program in (installed.by_pkg_config(work), installed.by_cmake(work, f"-DATTUNE_WANTED={version}")):
            expect(installed.run_consumer(program) == version, f"{program} runs with that version")
        another_version_is_refused(work, installed.libraries / "cmake" / "attune")
        a_parent_without_optimisation_gets_a_fast_attune(work)
    print("installed: names, headers, pkg-config, CMake and subproject are right")


if __name__ == "__main__":
    main()
