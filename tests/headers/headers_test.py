"""Every public header compiles on its own, included twice, without warnings. Element types that tensors do not
support do not compile.

Argument: the build directory. The public headers are those that `meson install` copies.
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


def compile_source(build, source):
    roots = [f"-I{build / layer / 'include'}" for layer in ("tensor", "autograd", "nn", "models")]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
               "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror", *roots, "-x", "c++", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True)


# Each use must give exactly one error, that of the static_assert.
WRONG_TYPES = ["x.data<attune::Index>()", "x.mutable_data<attune::Index>()", "x.at<bool>({0})", "x.mutable_at<long>({0})",
               "x.to_vector<bool>()", "attune::Tensor::of<std::int64_t>({1}, {1})", "attune::dtype_of<short>"]


def wrongly_accepted(build, use):
    source = f"#include <attune/tensor/elementwise.hpp>\nvoid f(attune::Tensor& x) {{ static_cast<void>(x), static_cast<void>({use}); }}\n"
    lines = [line for line in compile_source(build, source).stderr.splitlines() if "error:" in line]
    return [] if len(lines) == 1 and "elements of a Tensor are float, double or std::int32_t" in lines[0] else [use, *lines]


def main():
    build = pathlib.Path(sys.argv[1])
    headers = installed_headers(build)
    assert len(headers) > 40, headers
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda header: compile_source(build, 2 * f"#include <{header}>\n"), headers))
        accepted = sum(pool.map(lambda use: wrongly_accepted(build, use), WRONG_TYPES), [])
    failed = [header for header, result in zip(headers, results) if result.returncode != 0]
    for header, result in zip(headers, results):
        if result.returncode != 0:
            print(header, result.stderr, sep="\n")
    print(f"{len(headers) - len(failed)} of {len(headers)} headers compile on their own")
    print("unsupported element types that compile:", "\n".join(accepted) or "none")
    return 1 if failed or accepted else 0


if __name__ == "__main__":
    sys.exit(main())
