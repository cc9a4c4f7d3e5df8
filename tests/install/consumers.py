#!/usr/bin/env python3
"""Builds the program in consumer/ with every supported build system against shared and static
libraries, and runs it.

    tests/install/consumers.py          builds in build-consumers*/; takes minutes
"""
import re
import sys

from consuming import ROOT, by_subproject, install, run

WORK = ROOT / "build-consumers"
ONLY_THE_LIBRARY = ["-Dtests=disabled", "-Dexamples=disabled", "-Dbench=disabled", "-Dwerror=true"]


def installed(library):
    build = ROOT / f"build-consumers-{library}"  # a sibling of build/, so that ccache finds its objects
    if not (build / "build.ninja").exists():
        run(["meson", "setup", build, ROOT, f"-Ddefault_library={library}", *ONLY_THE_LIBRARY])
    run(["ninja", "-C", build])
    return install(build, WORK / f"installed-{library}")


def ways():
    """Yields: name, whether the program must use the shared library, build function, run function."""
    both = installed("both")
    for shared in (True, False):
        target = "attune::attune" if shared else "attune::attune-static"
        yield "pkg-config", shared, lambda: both.by_pkg_config(WORK, static=not shared), both.run_consumer
        yield "CMake", shared, lambda: both.by_cmake(WORK, f"-DATTUNE_TARGET={target}"), both.run_consumer
        yield "meson", shared, lambda: both.by_meson(WORK, static=not shared), both.run_consumer
    static = installed("static")
    yield "pkg-config, only static", False, lambda: static.by_pkg_config(WORK), static.run_consumer
    yield "CMake, only static", False, lambda: static.by_cmake(WORK), static.run_consumer
    yield "meson, only static", False, lambda: static.by_meson(WORK), static.run_consumer
    for library in ("shared", "static"):
        yield "meson subproject", library == "shared", lambda: by_subproject(WORK, f"-Ddefault_library={library}"), run_plain


def run_plain(program):
    return run([program]).strip()


def main():
    held = []
    WORK.mkdir(exist_ok=True)
    for name, shared, build, run_consumer in ways():
        program = build()
        version = run_consumer(program)
        uses_shared = re.search(r"NEEDED.*\[libattune\.so", run(["readelf", "-d", program])) is not None
        held.append(uses_shared == shared)
        print(f"{name:<25} {'shared' if uses_shared else 'static'}, attune {version}{'' if held[-1] else ' FAILED'}", flush=True)
    print(f"{sum(held)} passed, {len(held) - sum(held)} failed")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
