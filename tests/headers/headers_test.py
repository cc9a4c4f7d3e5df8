"""Every public header compiles by itself, twice in one file, and without warnings.

Run with the build directory; the headers are those that an install would copy.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys


def installed_headers(build):
    targets = json.loads((build / "meson-info" / "intro-installed.json").read_text())
    places = (pathlib.PurePath(place) for place in targets.values())
    return sorted(str(p).split("/include/", 1)[1] for p in places if p.suffix == ".hpp")


def compile_header(build, header):
    roots = [f"-I{build / layer / 'include'}" for layer in ("tensor", "autograd", "nn", "models")]
    line = f"#include <{header}>\n"
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
               "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror", *roots, "-x", "c++", "-"]
    return subprocess.run(command, input=2 * line, text=True, capture_output=True)


def main():
    build = pathlib.Path(sys.argv[1])
    headers = installed_headers(build)
    assert len(headers) > 40, headers
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda header: compile_header(build, header), headers))
    failed = [header for header, result in zip(headers, results) if result.returncode != 0]
    for header, result in zip(headers, results):
        if result.returncode != 0:
            print(header, result.stderr, sep="\n")
    print(f"{len(headers) - len(failed)} of {len(headers)} headers compile by themselves")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
