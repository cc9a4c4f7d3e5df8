"""Builds the program in consumer/ against an attune, in each way of its users, and runs it."""
import os
import pathlib
import shutil
import subprocess
import sys

CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
WRAP = CONSUMER.parent / "attune.wrap"
ROOT = CONSUMER.parents[2]
COMPILER = [os.environ.get("CXX", "g++"), "-std=c++20"]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


def run(command, **options):
    words = [str(word) for word in command]
    result = subprocess.run(words, text=True, capture_output=True, **options)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{result.stdout}{result.stderr}")
    return result.stdout


class Installation:
    """What is installed below `root`."""

    def __init__(self, root):
        self.root = root
        self.pc = next(root.rglob("attune.pc"))
        self.libraries = self.pc.parent.parent

    def environment(self):
        """In which pkg-config knows no library but attune: none may be needed to use it. The root is
        not the prefix that was configured: attune.pc must be right wherever it is.
        """
        environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(self.pc.parent))
        environment.pop("PKG_CONFIG_PATH", None)
        return environment

    def pkg_config(self, *arguments):
        return run(["pkg-config", *arguments, "attune"], env=self.environment()).split()

    def run_consumer(self, program):
        return run([program], env=dict(os.environ, LD_LIBRARY_PATH=str(self.libraries))).strip()

    def by_pkg_config(self, work, static=False):
        """Where both are there, the linker takes the shared library unless the file is named."""
        flags = self.pkg_config("--cflags", "--libs", *(["--static"] if static else []))
        flags = ["-l:libattune.a" if static and flag == "-lattune" else flag for flag in flags]
        run([*COMPILER, *WARNINGS, CONSUMER / "main.cpp", "-o", work / "by-pkg-config", *flags])
        return work / "by-pkg-config"

    def by_cmake(self, work, *arguments):
        build = work / "by-cmake"
        shutil.rmtree(build, ignore_errors=True)
        run(["cmake", "-S", CONSUMER, "-B", build, f"-Dattune_DIR={self.libraries}/cmake/attune", *arguments])
        run(["cmake", "--build", build])
        return build / "consumer"

    def by_meson(self, work, static=False):
        build = work / "by-meson"
        shutil.rmtree(build, ignore_errors=True)
        run(["meson", "setup", build, CONSUMER, f"-Dprefer_static={str(static).lower()}"], env=self.environment())
        run(["ninja", "-C", build])
        return build / "consumer"


def install(build, root):
    run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", root])
    return Installation(root)


def setup_subproject(work, *arguments):
    """A project with attune in subprojects/attune, and meson's defaults but for the arguments."""
    project, build = work / "project", work / "by-subproject"
    (project / "subprojects").mkdir(parents=True, exist_ok=True)
    links = {"main.cpp": CONSUMER / "main.cpp", "meson.build": CONSUMER / "meson.build",
             "subprojects/attune": ROOT, "subprojects/attune.wrap": WRAP}
    for name, target in links.items():
        if not (project / name).is_symlink():
            (project / name).symlink_to(target)
    run(["meson", "setup", *(["--wipe"] if build.exists() else []), build, project, *arguments])
    return build


def by_subproject(work, *arguments):
    build = setup_subproject(work, *arguments)
    run(["ninja", "-C", build])
    return build / "consumer"
