"""Every public header compiles on its own, included twice, without warnings. All together compile after macros with short
names, with other standards and more warnings. Element types that tensors do not support do not compile.

Argument: the build directory. The public headers are those that `meson install` copies.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys


def installed_headers(build):
    targets = json.loads((build / "meson-info" / "intro-installed.json").read_text())
    places = (pathlib.PurePath(place) for place in targets.values())
    return sorted(str(p).split("/include/", 1)[1] for p in places if p.suffix == ".hpp")


# Macros of Qt, complex.h, X11, Windows, Apple, sys/sysmacros.h and sys/param.h, math.h, and of logging and tests.
MACROS = ("slots; emit; signals public; foreach(a, b) for (a : b); forever for (,,); I 1.0iF; complex _Complex; None 0L; Bool int;"
          "Status int; True 1; False 0; Success 0; Always 2; Above 0; Below 1; Complex 0; Convex 2; near; far; IN; OUT; OPTIONAL;"
          "min(a, b) ((a) < (b) ? (a) : (b)); max(a, b) ((a) > (b) ? (a) : (b)); ERROR 0; DELETE 0x10000L; CONST const; VOID void;"
          "TRUE 1; FALSE 0; STRICT 1; small char; interface struct; check(a); verify(a); require(a, b); nil 0; YES 1; NO 0;"
          "major(a) 0; minor(a) 0; MIN(a, b) 0; MAX(a, b) 0; roundup(a, b) 0; DOMAIN 1; OVERFLOW 3; assert(a) ((void)(a));"
          "CHECK(a) a; LOG(a) a; INFO 0; FATAL 3; DEBUG 1; PI 3.14; F(a) a; _(a) a; linux 1; unix 1").split(";")


def after_macros(build, headers):
    """A source that includes the headers after the macros. Headers of the standard library do not all compile after them."""
    text = "".join((next(build.glob(f"*/include/{header}"))).read_text() for header in headers)
    standard = sorted(set(re.findall(r"#include <[a-z_]+>\n", text)))
    macros = [f"#undef {re.match('[ ]*([A-Za-z_]+)', macro)[1]}\n#define {macro}\n" for macro in MACROS]
    return "".join([*standard, *macros, *(f"#include <{header}>\n" for header in headers)])


def compile_source(build, source, *flags):
    roots = [f"-I{build / layer / 'include'}" for layer in ("tensor", "autograd", "nn", "models")]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic",
               "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Werror", *roots, *flags, "-x", "c++", "-"]
    return subprocess.run(command, input=source, text=True, capture_output=True)


OTHER_FLAGS = [["-std=gnu++20", "-Wold-style-cast", "-Wuseless-cast", "-Wundef", "-Wextra-semi"],
               ["-std=c++23", "-O2", "-Wnon-virtual-dtor", "-Woverloaded-virtual", "-Wdouble-promotion", "-Wlogical-op"]]

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
        others = list(pool.map(lambda flags: compile_source(build, after_macros(build, headers), *flags), OTHER_FLAGS))
        accepted = sum(pool.map(lambda use: wrongly_accepted(build, use), WRONG_TYPES), [])
    failed = [header for header, result in zip(headers, results) if result.returncode != 0]
    failed += [" ".join(flags) for flags, result in zip(OTHER_FLAGS, others) if result.returncode != 0]
    for header, result in zip([*headers, *OTHER_FLAGS], [*results, *others]):
        if result.returncode != 0:
            print(header, result.stderr, sep="\n")
    print(f"{len(failed)} of {len(headers)} headers and {len(OTHER_FLAGS)} sets of flags failed")
    print("unsupported element types that compile:", "\n".join(accepted) or "none")
    return 1 if failed or accepted else 0


if __name__ == "__main__":
    sys.exit(main())
