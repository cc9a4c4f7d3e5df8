#!/usr/bin/env python3
"""Builds a static program with an embedded model (small/). Checks its size, that it needs no shared
library, and its output.

    tests/install/small_program.py              builds in build-small/; takes minutes
    tests/install/small_program.py --times      also prints run times
"""
import collections
import pathlib
import re
import sys
import time

from consuming import COMPILER, CONSUMER, ROOT, WARNINGS, install, run

SMALL = CONSUMER.parent / "small"
WORK = ROOT / "build-small"
CHECKPOINT = SMALL / "dates.safetensors"
MOST_BYTES = 5_000_000
DATES = {"3 May 1979": "1979-05-03", "June 27, 2001": "2001-06-27"}


def installed():
    """Installs attune without optional libraries; a static program cannot load OpenBLAS."""
    build = WORK / "attune"
    if not (build / "build.ninja").exists():
        run(["meson", "setup", build, ROOT, "-Ddefault_library=static", "-Dblas=disabled", "-Dsentencepiece=disabled",
             "-Dmpi=disabled", "-Dtests=disabled", "-Dexamples=disabled", "-Dbench=disabled", "-Dwerror=true"])
    run(["ninja", "-C", build])
    return install(build, WORK / "installed")


def build(program):
    libraries = WORK / "libraries"
    if not (libraries / "libhwy.a").exists():
        run([SMALL / "static_libraries.sh", libraries])
    attune = installed()
    run([*COMPILER, *WARNINGS, "-O2", f'-DMODEL="{CHECKPOINT}"', *attune.pkg_config("--cflags"),
         "-c", SMALL / "main.cpp", "-o", WORK / "main.o"])
    run([*COMPILER, "-s", "-static", "-Wl,--gc-sections", f"-Wl,-Map={program}.map", WORK / "main.o", "-o", program,
         f"-L{libraries}", *attune.pkg_config("--libs", "--static")])


def bytes_of_libraries(link_map):
    """Library -> its bytes in the program, by the linker's map. Unwind tables are a separate entry."""
    sizes = collections.Counter()
    kept = link_map.split("Linker script and memory map", 1)[1]
    for section, size, path in re.findall(r"^ (\.\S+)\s+0x[0-9a-f]{16}\s+0x([0-9a-f]+) (\S+)", kept, re.M):
        if not section.startswith((".bss", ".tbss", ".debug", ".comment", ".note")):
            library = re.sub(r"\(.*", "", pathlib.PurePath(path).name)
            sizes[section if section == ".eh_frame" else library] += int(size, 16)
    return sizes


def milliseconds(command):
    """The minimum of 20 runs, because other load only makes a run slower."""
    def once():
        begin = time.monotonic()
        run(command)
        return 1e3 * (time.monotonic() - begin)

    return min(once() for _ in range(20))


def show_times(program):
    many = 1000
    date = next(iter(DATES))
    start, one, all_of_many = (milliseconds([program, *count * [date]]) for count in (0, 1, many))
    print(f"{start:.2f} ms to start, read the model and exit, {one:.2f} ms with a date, {(all_of_many - one) / (many - 1):.3f} ms per further date")


def main():
    WORK.mkdir(exist_ok=True)
    program = WORK / "dates"
    build(program)
    for library, size in bytes_of_libraries(pathlib.Path(f"{program}.map").read_text()).most_common(8):
        print(f"{size / 1e3:9.1f} kB  {library}")
    if "--times" in sys.argv:
        show_times(program)
    size = program.stat().st_size
    written = run([program, *DATES]).split()
    needed = re.findall(r"NEEDED.*", run(["readelf", "-d", program]))
    print(f"{size / 1e6:.2f} MB, wrote {' '.join(written)}", *needed)
    return 0 if size <= MOST_BYTES and written == list(DATES.values()) and not needed else 1


if __name__ == "__main__":
    sys.exit(main())
