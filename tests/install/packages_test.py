"""Checks that examples/packages.sh --print installs, on each system, the packages of the table in CONTRIBUTING.md."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMS = {"Debian 12": ("debian", "12", "apt-get install"), "Debian 13": ("debian", "13", "apt-get install"),
           "Ubuntu 24.04": ("ubuntu", "24.04", "apt-get install"), "Ubuntu 22.04": ("ubuntu", "22.04", "apt-get install"),
           "Fedora": ("fedora", "43", "dnf install"), "Arch": ("arch", "", "pacman -S"), "Alpine": ("alpine", "3.22", "apk add"),
           "Homebrew": ("macos", "", "brew install")}


def columns():
    """The packages of each column."""
    lines = (ROOT / "CONTRIBUTING.md").read_text().split("## Packages by system")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    table = {name: [row[column] for row in rows[2:]] for column, name in enumerate(rows[0])}
    return {**{name: table["Debian 12, 13, Ubuntu 24.04"] for name in ("Debian 12", "Debian 13", "Ubuntu 24.04")}, **table}


def run(system, *arguments):
    name, version, _ = SYSTEMS.get(system, (system, "1", ""))
    with tempfile.NamedTemporaryFile("w") as release:
        release.write(f'ID={name}\n' + (f'VERSION_ID="{version}"\n' if version else ""))
        release.flush()
        return subprocess.run([ROOT / "examples/packages.sh", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "ATTUNE_OS_RELEASE": release.name})


class PackagesTest(unittest.TestCase):
    def test_each_system_installs_the_packages_of_the_table(self):
        for system, (_, _, installer) in SYSTEMS.items():
            with self.subTest(system):
                printed = run(system, "--print", "tests").stdout
                line = next(line for line in printed.splitlines() if installer in line)
                words = [word for word in line.split(installer)[1].split() if not word.startswith("-")]
                extra = {word for word in words if re.search("python|py3|numpy|cmake|openmpi-bin", word)} - {"python3-pip"}
                named = {cell for cell in columns()[system] if cell not in ("wrap", "-")}
                self.assertEqual(set(words) - extra, named)

    def test_what_meson_builds_and_what_is_left_out_is_named(self):
        self.assertIn("Meson builds Highway and fmt", run("Ubuntu 22.04", "--print").stdout)
        self.assertIn("Left out: subwords", run("Alpine", "--print").stdout)
        self.assertNotIn("#", run("Debian 12", "--print").stdout)

    def test_an_unknown_system_or_set_is_an_error(self):
        for system, arguments in (("plan9", []), ("Fedora", ["clang"]), ("Debian 12", ["nonsense"])):
            result = run(system, *arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1))
            self.assertIn("expected", result.stderr)


unittest.main()
