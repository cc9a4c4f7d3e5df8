"""Checks the recipes for package managers against the sources: versions, options, libraries, paths; and
the versions in CITATION.cff and CHANGELOG.md. Needs no network.

Argument: the build directory.
"""
import configparser
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The names of each library in meson, vcpkg and Debian.
LIBRARIES = [("fmt", "fmt", "libfmt-dev"),
             ("libhwy", "highway", "libhwy-dev"),
             ("nlohmann_json", "nlohmann-json", "nlohmann-json3-dev"),
             ("libxxhash", "xxhash", "libxxhash-dev")]
failed = []


def expect(held, what):
    if not held:
        failed.append(what)


def check_options(recipe, given, known):
    expect(given, f"{recipe}: it sets no meson options")
    for name, value in given:
        choices = known.get(name, {}).get("choices") or ["enabled", "disabled", "auto"]
        expect(name in known, f"{recipe}: unknown meson option {name}")
        expect(value in choices, f"{recipe}: {name} is {value}; expected one of {', '.join(choices)}")


def check_libraries(recipe, column, has):
    needed = re.findall(r"_dep = dependency\('([\w-]+)'\)", (ROOT / "meson.build").read_text())
    for name in [*needed, "libxxhash"]:
        row = next((row for row in LIBRARIES if row[0] == name), None)
        if row is None and name != "threads":
            failed.append(f"meson.build needs {name}, which is missing in LIBRARIES of recipes_test.py")
        elif row is not None:
            expect(has(row[column]), f"{recipe}: {row[column]} is missing")


def vcpkg(version, known):
    port = HERE / "vcpkg" / "attune"
    manifest = json.loads((port / "vcpkg.json").read_text())
    names = [entry if isinstance(entry, str) else entry["name"] for entry in manifest["dependencies"]]
    expect(manifest["version"] == version, f"vcpkg: the version is {manifest['version']}, expected {version}")
    check_libraries("vcpkg", 1, lambda name: name in names)
    text = (port / "portfile.cmake").read_text()
    check_options("vcpkg", re.findall(r"-D(\w+)=(\w+)", text), known)
    source = re.search(r'SOURCE_PATH "\$\{CURRENT_PORT_DIR\}/([./]*)"', text)[1]
    expect((port / source).resolve() == ROOT, "vcpkg: SOURCE_PATH is not the source directory")


def debian(version, known):
    files = ("changelog", "control", "rules")
    changelog, control, rules = ((HERE / "debian" / name).read_text() for name in files)
    expect(changelog.startswith(f"attune ({version}-"), f"Debian: the version of changelog is not {version}")
    soversion = re.match(r"0\.\d+|\d+", version)[0]
    expect(f"\nPackage: libattune{soversion}\n" in control, f"Debian: control has no package libattune{soversion}")
    expect((HERE / "debian" / f"libattune{soversion}.install").exists(), f"Debian: libattune{soversion}.install does not exist")
    needed = re.search(r"Build-Depends:(.*(?:\n .*)*)", control)[1]
    check_libraries("Debian", 2, lambda name: name in re.findall(r"[\w-]+", needed))
    check_options("Debian", re.findall(r"-D(\w+)=(\w+)", rules), known)


def pages(version):
    citation = (ROOT / "CITATION.cff").read_text()
    expect(f"\nversion: {version}\n" in citation, f"CITATION.cff: the version is not {version}")
    newest = re.search(r"\n## \[(?!Unreleased)(.*?)\]", (ROOT / "CHANGELOG.md").read_text())
    expect(newest and newest[1] == version, f"CHANGELOG.md: the newest version is not {version}")


def wrap():
    file = configparser.ConfigParser()
    file.read(HERE / "attune.wrap")
    expect(file["wrap-file"]["directory"] == "attune", "wrap: the directory is not attune")
    provided = file["provide"]["dependency_names"]
    expect(f"override_dependency('{provided}'" in (ROOT / "meson.build").read_text(), f"wrap: meson.build does not provide {provided}")


def main():
    info = pathlib.Path(sys.argv[1]) / "meson-info"
    version = json.loads((info / "intro-projectinfo.json").read_text())["version"]
    known = {option["name"]: option for option in json.loads((info / "intro-buildoptions.json").read_text())}
    vcpkg(version, known)
    debian(version, known)
    pages(version)
    wrap()
    print("\n".join(failed) or "the recipes for vcpkg, Debian and meson, CITATION.cff and CHANGELOG.md match the sources")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
