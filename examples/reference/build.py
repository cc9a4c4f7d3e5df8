#!/usr/bin/env python3
"""Builds the reference of the public headers, build/reference/html/index.html, with Doxygen
(Debian: doxygen). Doxygen warnings and broken links are errors (exit status 1). The folder html is
the complete site: it contains copies of the files that pages link to.

Doxygen reads copies of the headers with the same line numbers. In the copies, plain comments at the
top of a header and after members become documentation comments, so that the headers themselves need
no Doxygen markup.
"""
import itertools
import pathlib
import re
import shutil
import subprocess
import sys

PAGES = pathlib.Path(__file__).resolve().parent
ROOT = PAGES.parent.parent
OUT = ROOT / "build" / "reference"
INPUT, HTML = OUT / "input", OUT / "html"


def public_headers():
    """The headers that meson installs, relative to ROOT."""
    for layer in ("tensor", "autograd", "nn", "models"):
        for name in sorted(set(re.findall(r"'([^']+\.hpp)'", (ROOT / layer / "meson.build").read_text()))):
            yield pathlib.PurePath(layer, name)


def text_of(header):
    """The text of a header; for version.hpp, which meson generates, the expanded template."""
    if (ROOT / header).exists():
        # Doxygen does not know the variables of std that a header specialises.
        return re.sub(r"\ntemplate <>.*\ninline .* std::.*", "\n\n", with_functions((ROOT / header).read_text()))
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    parts = dict(zip(("major", "minor", "patch"), version.split(".")), version=version)
    return re.sub("@([a-z]+)@", lambda place: parts[place[1]], (ROOT / f"{header}.in").read_text())


def with_functions(text):
    """Expands the include of functions.inc to declarations with comments."""
    table = (ROOT / "tensor" / "functions.inc").read_text()
    functions = re.findall(r"^ATTUNE_\w+\((\w+), .*// (.+)", table, re.M)

    def declarations(match):
        return "\n".join(f"/// {comment}\n{match[1].replace(' name(', f' {name}(')}" for name, comment in functions)

    return re.sub(r"#define ATTUNE_FUNCTION\([^)]*\) (.*)\n#include <attune/tensor/functions.inc>", declarations, text)


def mark_file(lines):
    """Marks the comment before #pragma once as documentation of the file."""
    once = lines.index("#pragma once")
    return [line.replace("//", "///", 1) for line in lines[:once]] + ["/// @file"] + lines[once + 1 :]


def mark_members(lines):
    """Marks comments after members of a class or enum, including continuation lines."""
    scopes, behind = [], False
    for line in lines:
        code = re.sub(r"//.*", "", line)
        if code.strip():
            behind = " // " in line and scopes[-1:] == ["class"] and code.count("{") == code.count("}")
        else:
            behind = behind and line.strip().startswith("// ")
        yield re.sub(r"// (?!NOLINT)", "///< ", line, 1) if behind else line
        for brace in re.findall("[{}]", re.sub(r"'.'|\"[^\"]*\"", "", code)):
            if brace == "}":
                scopes.pop()
            else:
                scopes.append("class" if re.match(r"\s*(class|struct|enum)\b", code) else "other")


def mark_blocks(lines):
    """Marks equations and code (indented by four spaces) as verbatim. Replaces the list marker *, which
    Doxygen treats as part of the comment, by -.
    """
    def verbatim(block):
        return f"@verbatim {block[0].replace(chr(10) + 4 * ' ', chr(10)).strip()} @endverbatim"

    for is_comment, group in itertools.groupby(lines, lambda line: bool(re.match(r"\s*///( |$)", line))):
        comment = "\n".join(re.sub(r"\s*/// ?", "", line, 1) for line in group) if is_comment else ""
        comment = re.sub(r"(?m)^( ?)\* ", r"\1- ", comment)
        marked = re.sub(r"(?m)^    .+(\n    .+)*$", verbatim, comment)
        yield f"/** {marked} */" if is_comment else "\n".join(group)


def page_for_doxygen(text, headers):
    """Redirects links to public headers into the reference, and links to other files to copies."""
    def link(match):
        target = (PAGES / match[2]).resolve()
        if target.parent == PAGES:  # Doxygen 1.9 does not find headings of other pages
            return match[0].split("#")[0].rstrip(")") + ")"
        if target.relative_to(ROOT) in headers:
            return f"[{match[1]}](@ref attune/{target.relative_to(ROOT)})"
        if target.is_dir():
            target /= "README.md"
        copy = HTML / "tree" / target.relative_to(ROOT)
        if target.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
        return f'<a href="{copy.relative_to(HTML)}">{match[1]}</a>'

    return re.sub(r"(?<!!)\[([^]]+)\]\(([^)]+)\)", link, text)


def copy_input():
    shutil.rmtree(OUT, ignore_errors=True)
    headers = list(public_headers())
    for header in headers:
        lines = text_of(header).split("\n")
        if "#pragma once" in lines:
            lines = mark_blocks(mark_members(mark_file(lines)))
        copy = INPUT / "attune" / header
        copy.parent.mkdir(parents=True, exist_ok=True)
        # A full stop and a blank end Doxygen's brief description; a backslash after the stop prevents it.
        copy.write_text(re.sub(r"et al\.(?=\s)", "et al.\\\\ ", "\n".join(lines)))
    shutil.copy(ROOT / "tensor" / "operators.inc", INPUT / "attune" / "tensor")
    for page in PAGES.glob("*.md"):
        (INPUT / page.name).write_text(page_for_doxygen(page.read_text(), headers))
    for picture in PAGES.glob("*.svg"):
        shutil.copy(picture, INPUT)


def broken_links():
    for page in sorted(HTML.glob("*.html")):
        for target in re.findall(r'(?:href|src|data)="([^"#:]+)["#]', page.read_text()):
            if not (HTML / target).exists():
                yield f"{page.name}: {target} does not exist\n"


def main():
    if not shutil.which("doxygen"):
        sys.exit("doxygen is not installed: apt-get install doxygen")
    copy_input()
    done = subprocess.run(["doxygen", PAGES / "Doxyfile"], cwd=INPUT, text=True, capture_output=True)
    warnings = done.stderr.replace(f"{INPUT}/attune/", "").replace(f"{INPUT}/", f"{PAGES.relative_to(ROOT)}/")
    broken = "".join(broken_links())
    print(warnings + broken, end="", file=sys.stderr)
    if done.returncode or broken:
        return 1
    print(f"{(HTML / 'index.html').relative_to(ROOT)}: no warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
