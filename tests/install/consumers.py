#!/usr/bin/env python3
"""The program in consumer/, built in every way that a user may choose, and a small static program. Takes minutes.

    tests/install/consumers.py          builds into build-consumers-both/ and build-consumers-static/
"""
import pathlib
import re
import shutil
import sys
import tempfile

from consuming import COMPILER, CONSUMER, ROOT, Installation, by_subproject, run

CHECKPOINT = ROOT / "tests" / "golden" / "checkpoints" / "dates.safetensors"
MOST_BYTES = 5_000_000
# Sections of functions that nothing calls are left out; libraries that nothing needs, too.
SMALLER = ["-O2", "-s", "-Wl,--gc-sections", "-Wl,--as-needed", "-static-libstdc++", "-static-libgcc"]


def installed(work, name, *options):
    build = ROOT / f"build-consumers-{name}"
    if not (build / "build.ninja").exists():
        run(["meson", "setup", build, "-Dtests=disabled", "-Dexamples=disabled", "-Dbench=disabled", *options], cwd=ROOT)
    run(["ninja", "-C", build])
    return Installation(build, work / name)


def libraries_of(program):
    return re.findall(r"NEEDED\).*\[(.*)\]", run(["readelf", "-d", program]))


def small(static, work):
    """The program in small/ with the dates of a training it has seen."""
    program = work / "small"
    run([*COMPILER, *SMALLER, CONSUMER.parent / "small" / "main.cpp", "-o", program,
         *static.pkg_config("--cflags", "--libs")])
    written = run([program, CHECKPOINT, "3 May 1979", "June 27, 2001"]).split()
    size = program.stat().st_size
    held = written == ["1979-05-03", "2001-06-27"] and size <= MOST_BYTES and "libattune" not in str(libraries_of(program))
    return held, f"{size / 1e6:.2f} MB, {', '.join(libraries_of(program))}; wrote {' '.join(written)}"


def main():
    rows = []

    def row(name, held, what):
        rows.append(held)
        print(f"{name:<28} {'held' if held else 'FAILED':<7} {what}", flush=True)

    def consumer(name, run_consumer, program, shared):
        uses_shared = any(library.startswith("libattune.so") for library in libraries_of(program))
        version = run_consumer(program)
        row(name, uses_shared == shared, f"attune {version}, {'shared' if uses_shared else 'static'}")

    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        both = installed(work, "both", "-Ddefault_library=both")
        consumer("pkg-config, shared", both.run_consumer, both.by_pkg_config(work), True)
        consumer("pkg-config, static", both.run_consumer, both.by_pkg_config(work, static=True), False)
        consumer("CMake, shared", both.run_consumer, both.by_cmake(work), True)
        consumer("CMake, attune-static", both.run_consumer,
                 both.by_cmake(work, "-DATTUNE_TARGET=attune::attune-static"), False)
        # Without the optional libraries and OpenBLAS, whose kernels for every CPU are large.
        static = installed(work, "static", "-Ddefault_library=static", "-Dblas=disabled", "-Dsentencepiece=disabled",
                           "-Dmpi=disabled", "-Dcpp_args=-ffunction-sections -fdata-sections")
        consumer("pkg-config, static only", static.run_consumer, static.by_pkg_config(work), False)
        shutil.rmtree(work / "by-cmake")
        consumer("CMake, static only", static.run_consumer, static.by_cmake(work), False)
        row("small static program", *small(static, work))
        for library in ("shared", "static"):
            program = by_subproject(work, f"-Ddefault_library={library}")
            consumer(f"meson subproject, {library}", lambda it: run([it]).strip(), program, library == "shared")
    print(f"{sum(rows)} held, {len(rows) - sum(rows)} failed")
    return 0 if all(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
