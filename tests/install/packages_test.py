"""Checks that examples/packages.sh --print installs, on each system, the packages of the table in CONTRIBUTING.md, and that
.ci/release refuses a version without an entry in CHANGELOG.md.
"""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# System -> column of the table, ID and VERSION_ID of /etc/os-release.
SYSTEMS = {"Debian 12": (2, "debian", "12"), "Debian 13": (2, "debian", "13"), "Ubuntu 24.04": (2, "ubuntu", "24.04"),
           "Ubuntu 22.04": (3, "ubuntu", "22.04"), "Fedora": (4, "fedora", "43"), "Arch": (5, "arch", ""),
           "Alpine": (6, "alpine", "3.22"), "Homebrew": (7, "macos", "")}


def run(system, *arguments):
    _, name, version = SYSTEMS.get(system, (0, system, "1"))
    with tempfile.NamedTemporaryFile("w") as release:
        print(f"ID={name}\nVERSION_ID={version}", file=release, flush=True)
        return subprocess.run([ROOT / "examples/packages.sh", *arguments], capture_output=True, text=True,
                              env={**os.environ, "ATTUNE_OS_RELEASE": release.name})


class PackagesTest(unittest.TestCase):
    def test_each_system_installs_the_packages_of_the_table(self):
        section = (ROOT / "CONTRIBUTING.md").read_text().split("## Packages by system")[1].split("\n## ")[0]
        rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in re.findall(r"(?m)^\| .*", section)[1:]]
        for system, (column, _, _) in SYSTEMS.items():
            printed = re.search(r"(?m)^.* (?:install|add|-S) (.* (?:cmake|python3) .*)$", run(system, "--print", "tests").stdout)[1]
            packages = {word for word in printed.split() if not re.match("-|python3?$|cmake|openmpi-bin|numpy|py.*-[nxm]", word)}
            self.assertEqual(packages, {row[column] for row in rows} - {"wrap", "-"}, system)

    def test_what_meson_builds_and_what_is_left_out_is_named(self):
        self.assertIn("Meson builds Highway and fmt", run("Ubuntu 22.04", "--print").stdout)
        self.assertIn("Left out: subwords", run("Alpine", "--print").stdout)
        self.assertNotIn("#", run("Debian 12", "--print").stdout)

    def test_an_unknown_system_or_set_is_an_error(self):
        for system, arguments in (("plan9", []), ("Fedora", ["clang"]), ("Debian 12", ["nonsense"])):
            result = run(system, *arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1))
            self.assertIn("expected", result.stderr)

    def test_a_release_needs_an_entry_in_the_changelog(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / ".ci").mkdir()
            script = shutil.copy(ROOT / ".ci/release", pathlib.Path(folder) / ".ci")
            for name in ("meson.build", "CHANGELOG.md"):
                (pathlib.Path(folder) / name).write_text((ROOT / name).read_text().replace("  version: '", "  version: '9"))
            version = re.search("  version: '(.*)'", (ROOT / "meson.build").read_text())[1]
            for tag, error in (("v9" + version, "CHANGELOG.md has no entry"), (version, "the version of meson.build is 9")):
                result = subprocess.run([script, tag], capture_output=True, text=True)
                self.assertEqual(result.returncode, 1)
                self.assertIn(error, result.stderr)


unittest.main()
