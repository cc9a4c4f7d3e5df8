"""Tests an installation: exported symbols, headers, pkg-config, CMake, and a program that runs.

Argument: the build directory. Installs into a temporary directory.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from consuming import COMPILER, CONSUMER, install, run, setup_subproject

# Headers, or folders of headers, of the libraries that attune uses.
LIBRARIES = ("fmt/", "hwy/", "nlohmann/", "unicode/", "xxhash", "sentencepiece", "openblas", "cblas", "mpi")


def expect(held, what, shown=""):
    if not held:
        sys.exit(f"failed: {what}\n{shown}")


def exports_only_attune(installed):
    library = installed.libraries / "libattune.so"
    names = [line.split()[-1] for line in run(["nm", "-D", "--defined-only", library]).splitlines()]
    foreign = [name for name in names if not re.match(r"_(ZT[ISTV]|ZGVZ?|ZZ?)NK?R?6attune", name)]
    expect(len(names) > 500, "the shared library exports the functions of attune", names)
    expect(not foreign, "the shared library exports only namespace attune", "\n".join(foreign))


def headers_include_no_other_library(installed):
    source = "#include <attune/attune.hpp>\n"
    used = run([*COMPILER, *installed.pkg_config("--cflags"), "-M", "-x", "c++", "-"], input=source).split()
    foreign = [path for path in used if any(f"/{name}" in path for name in LIBRARIES)]
    expect(len(used) > 100, "the preprocessor lists the headers", used)
    expect(not foreign, "attune's headers include no headers of other libraries", foreign)


def older_standards_are_rejected(installed):
    for standard in ("c++11", "c++17"):
        command = [*COMPILER, f"-std={standard}", *installed.pkg_config("--cflags"), "-fsyntax-only", "-x", "c++", "-"]
        done = subprocess.run(command, input="#include <attune/attune.hpp>\nattune::Tensor x;\n", text=True,
                              capture_output=True)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        expect(done.returncode != 0 and "attune needs C++20" in errors[0], f"-std={standard} is an error", done.stderr)
        expect(len(errors) == 2 and "attune/stop" in errors[1], "compilation stops after this error", done.stderr)


OTHER_FLAGS = """#include <attune/autograd/ops.hpp>
int main() {
  const attune::Var w = attune::variable(attune::ones({3}));
  const attune::NoGrad guard;
  return (w * 2.0).requires_gradient();
}
"""


def flags_of_the_program_do_not_matter_or_are_errors(installed, work):
    def link(flag):
        command = [*COMPILER, flag, "-x", "c++", "-", "-o", work / "flags", *installed.pkg_config("--cflags", "--libs")]
        return subprocess.run(list(map(str, command)), input=OTHER_FLAGS, text=True, capture_output=True)

    expect(link("-fvisibility=hidden").returncode == 0, "-fvisibility=hidden links")
    expect(installed.run_consumer(work / "flags") == "", "-fvisibility=hidden shares the state of threads with the library")
    for flag in ("-D_GLIBCXX_DEBUG", "-D_GLIBCXX_USE_CXX11_ABI=0"):
        done = link(flag)
        expect(done.returncode != 0 and "flags_like_D_GLIBCXX_DEBUG_must_match" in done.stderr, f"{flag} does not link")


def other_versions_are_rejected(work, cmake_config):
    for wanted in ("0.0", "0.99", "1"):
        done = subprocess.run(["cmake", "-S", CONSUMER, "-B", work / f"wants-{wanted}", f"-Dattune_DIR={cmake_config}",
                               f"-DATTUNE_WANTED={wanted}"], text=True, capture_output=True)
        expect(done.returncode != 0 and "requested version" in done.stderr, f"CMake rejects version {wanted}", done.stderr)


def subproject_is_optimised(work):
    def levels(*arguments):
        commands = json.loads((setup_subproject(work, *arguments) / "compile_commands.json").read_text())
        level = lambda command: ([word for word in command.split() if re.fullmatch("-O.", word)] or ["-O0"])[-1]
        ours = {level(command["command"]) for command in commands if "attune" in command["file"]}
        parents = {level(command["command"]) for command in commands if "attune" not in command["file"]}
        return ours, parents

    expect(levels() == ({"-O3"}, {"-O0"}), "attune is compiled with -O3, its parent with -O0", levels())
    slow = levels("-Dattune:subproject_optimization=0")
    expect(slow == ({"-O0"}, {"-O0"}), "subproject_optimization=0 compiles attune with -O0", slow)
    release = levels("-Doptimization=2", "-Dattune:subproject_optimization=3")  # --wipe keeps options, so reset it
    # Newer versions of meson use the level of attune's default buildtype, release.
    expect(release in (({"-O2"}, {"-O2"}), ({"-O3"}, {"-O2"})), "attune has the parent's level -O2, or -O3", release)


def main():
    build = pathlib.Path(sys.argv[1])
    version = json.loads((build / "meson-info" / "intro-projectinfo.json").read_text())["version"]
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        installed = install(build, work / "installed")
        exports_only_attune(installed)
        headers_include_no_other_library(installed)
        older_standards_are_rejected(installed)
        flags_of_the_program_do_not_matter_or_are_errors(installed, work)
        expect(installed.pkg_config("--modversion") == [version], "pkg-config has the version of meson.build")
        expect("-lfmt" in installed.pkg_config("--libs", "--static"), "pkg-config --static lists attune's dependencies")
        expect("-lfmt" not in installed.pkg_config("--libs"), "pkg-config without --static lists no dependencies")
        for program in (installed.by_pkg_config(work), installed.by_cmake(work, f"-DATTUNE_WANTED={version}")):
            expect(installed.run_consumer(program) == version, f"{program} runs with version {version}")
        other_versions_are_rejected(work, installed.libraries / "cmake" / "attune")
        subproject_is_optimised(work)
    print("installed: symbols, headers, pkg-config, CMake and subproject are correct")


if __name__ == "__main__":
    main()
