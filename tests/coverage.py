#!/usr/bin/env python3
"""Measures line and branch coverage of the library by its tests. Needs gcovr.

    tests/coverage.py [--missed]

Builds into build-coverage/, runs the tests of the four layers, and prints a table. --missed also prints
the lines that no test executes. The exit status is 1 if a test fails or line coverage is below 98 %.

A kernel is compiled for each instruction set. Each of its lines counts once, and counts as covered if it
was executed under any instruction set. Branches that only exceptions take are excluded, and so are the kernels for
AVX-512 BF16 if the CPU does not have it, or has AMX, which computes the same products.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-coverage"
LAYERS = ("tensor", "autograd", "nn", "models")
WANTED = 98


def run(*command, **options):
    return subprocess.run([str(part) for part in command], cwd=ROOT, **options)


def build():
    if not (BUILD / "build.ninja").exists():
        run("meson", "setup", BUILD, "-Db_coverage=true", "-Doptimization=1", "-Dcpp_args=-fprofile-update=atomic",
            "-Dtests=enabled", "-Dmpi=enabled", "-Dsentencepiece=enabled", "-Dexamples=disabled", "-Dbench=disabled",
            check=True)
    run("ninja", "-C", BUILD, check=True)
    for counts in BUILD.rglob("*.gcda"):
        counts.unlink()


def test():
    suites = [argument for layer in LAYERS for argument in ("--suite", layer)]
    return run("meson", "test", "-C", BUILD, "--no-rebuild", "--print-errorlogs", "--num-processes", os.cpu_count(),
               "--timeout-multiplier", 10, *suites).returncode == 0


def add_lines(lines, file):
    """Adds the counts of a file. A line of a template or kernel occurs once for each instance."""
    for line in file["lines"]:
        if line.get("gcovr/noncode"):
            continue
        reached, branches = lines.get(line["line_number"], (False, []))
        taken = [branch["count"] > 0 for branch in line["branches"]]
        if len(taken) == len(branches):
            taken = [a or b for a, b in zip(taken, branches)]
        lines[line["line_number"]] = (reached or line["count"] > 0, taken)


def collect():
    """Source file -> line number -> (line covered, [branch covered, ...])."""
    out = BUILD / "coverage.json"
    run("gcovr", "--root", ROOT, "--exclude-throw-branches", "--json", out, "-j", os.cpu_count(), BUILD, check=True)
    cpu = pathlib.Path("/proc/cpuinfo").read_text()
    bf16 = "avx512_bf16" in cpu and "amx_tile" not in cpu
    files = {}
    for file in json.loads(out.read_text())["files"]:
        path = (ROOT / file["file"]).resolve().relative_to(ROOT)  # headers are found through links
        if path.parts[0] in LAYERS and (bf16 or path.name != "bf16.cpp"):
            add_lines(files.setdefault(path, {}), file)
    return files


class Counts:
    def __init__(self):
        self.lines = self.lines_reached = self.branches = self.branches_reached = 0

    def add(self, lines):
        for reached, branches in lines.values():
            self.lines += 1
            self.lines_reached += reached
            self.branches += len(branches)
            self.branches_reached += sum(branches)

    def row(self, name):
        lines = 100 * self.lines_reached / max(1, self.lines)
        branches = 100 * self.branches_reached / max(1, self.branches)
        return f"{name:<10} {self.lines:8} {lines:8.2f} % {self.branches:10} {branches:8.2f} %"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missed", action="store_true", help="print the lines that no test executes")
    arguments = parser.parse_args()
    build()
    passed = test()
    total = Counts()
    layers = {layer: Counts() for layer in LAYERS}
    for path, lines in sorted(collect().items()):
        total.add(lines)
        layers[path.parts[0]].add(lines)
        missed = [number for number, (reached, _) in sorted(lines.items()) if not reached]
        if arguments.missed and missed:
            print(f"{path}: {', '.join(map(str, missed))}")
    print(f"{'layer':<10} {'lines':>8} {'covered':>10} {'branches':>10} {'covered':>10}")
    for layer, counts in layers.items():
        print(counts.row(layer))
    print(total.row("all"))
    return 0 if passed and 100 * total.lines_reached >= WANTED * total.lines else 1


if __name__ == "__main__":
    sys.exit(main())
