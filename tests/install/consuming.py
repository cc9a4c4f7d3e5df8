"""Functions that build the program in consumer/ against an installed attune and run it."""
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
    """An installation below `root`."""

    def __init__(self, root):
        self.root = root
        self.pc = next(root.rglob("attune.pc"))
        self.libraries = self.pc.parent.parent

    def environment(self):
        """An environment in which pkg-config finds only attune, because users need no other library.
        The root is not the configured prefix, which tests that the installation can be moved.
        """
        environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(self.pc.parent))
        environment.pop("PKG_CONFIG_PATH", None)
        return environment

    def pkg_config(self, *arguments):
        return run(["pkg-config", *arguments, "attune"], env=self.environment()).split()

    def run_consumer(self, program):
        return run([program], env=dict(os.environ, LD_LIBRARY_PATH=str(self.libraries))).strip()

    def by_pkg_config(self, work, static=False):
        """If both libraries are installed, -lattune selects the shared one, -l:libattune.a the static one."""
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
    """Configures a project with attune in subprojects/attune, with meson's defaults and the arguments."""
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
