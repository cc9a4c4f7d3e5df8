#!/usr/bin/env python3
"""Builds Debian packages of the committed tree, checks them with lintian, builds consumer/ with them.

    tests/install/debian_package.py               builds in a temporary directory; takes minutes
    tests/install/debian_package.py DIRECTORY     copies the packages to DIRECTORY
"""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile

from consuming import ROOT, Installation, run


def build(work):
    """Builds the packages in `work`. Returns the files of the source and binary packages."""
    version = re.search(r"\n  version: '(.*)'", (ROOT / "meson.build").read_text())[1]
    tree = work / f"attune-{version}"
    archive = work / f"attune_{version}.orig.tar.gz"
    run(["git", "archive", f"--prefix={tree.name}/", "-o", archive, "HEAD"], cwd=ROOT)
    run(["tar", "-xf", archive], cwd=work)
    shutil.copytree(tree / "tests" / "install" / "debian", tree / "debian")
    run(["dpkg-buildpackage", "-us", "-uc"], cwd=tree)
    return sorted(path for path in work.iterdir() if path.is_file())


def programs(work):
    """Builds the consumer against the unpacked packages. Yields the build method and the printed version."""
    for package in work.glob("*.deb"):
        run(["dpkg-deb", "-x", package, work / "installed"])
    installed = Installation(work / "installed")
    yield "pkg-config", installed.run_consumer(installed.by_pkg_config(work))
    yield "pkg-config --static", installed.run_consumer(installed.by_pkg_config(work, static=True))
    yield "CMake", installed.run_consumer(installed.by_cmake(work))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=pathlib.Path, metavar="DIRECTORY", help="copy the packages there")
    directory = parser.parse_args().directory
    missing = [tool for tool in ("dh", "dpkg-buildpackage", "lintian") if not shutil.which(tool)]
    if missing:
        sys.exit(f"missing programs: {', '.join(missing)} (packages build-essential, debhelper, lintian)")
    if directory and not directory.is_dir():
        sys.exit(f"{directory}: a directory was expected")
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        files = build(work)
        run(["lintian", "--allow-root", "--fail-on", "error,warning", *work.glob("*.changes")])
        print("lintian finds no errors and no warnings", flush=True)
        for way, version in programs(work):
            print(f"{way}: the program runs with attune {version}", flush=True)
        for path in files if directory else []:
            print(shutil.copy(path, directory))


if __name__ == "__main__":
    main()
