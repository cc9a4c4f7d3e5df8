#!/usr/bin/env python3
"""Builds the reference of the public headers, build/reference/html/index.html, with Doxygen
(Debian: doxygen). Doxygen warnings and broken links are errors (exit status 1). The folder html is
the complete site: it contains copies of the files that pages link to.

Doxygen reads copies of the headers with the same line numbers. In the copies, plain comments at the
top of a header and after members become documentation comments, so that the headers themselves need
no Doxygen markup.
"""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

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
        return with_tables((ROOT / header).read_text())
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text())[1]
    parts = dict(zip(("major", "minor", "patch"), version.split(".")), version=version)
    return re.sub("@([a-z]+)@", lambda place: parts[place[1]], (ROOT / f"{header}.in").read_text())


def with_tables(text):
    """Replaces the include of a table (.inc), and the macros before it, by the declarations that it expands to,
    whose comments are those of the table.
    """
    def declarations(match):
        defined = re.findall(r"#define (\w+)\((.*?)\)((?:.*\\\n)*.*)", match[1])
        macros = {name: (names.split(", "), re.sub(r"\\\n *", " ", body)) for name, names, body in defined}
        for name, values, comment in re.findall(r"^(ATTUNE_\w+)\((.*?)\)(?: +// (.+))?$", (ROOT / match[2]).read_text(), re.M):
            names, body = macros.get(name, next(iter(macros.values())))
            for parameter, value in zip(names, values.split(", ")):
                body = re.sub(rf"(##)?\b{parameter}\b(##)?", lambda _: value, body)
            yield (f"/// {comment}\n" if comment else "") + body.strip()

    return re.sub(r"((?:#define (?:.*\\\n)*.*\n)+)#include <attune/(\w+/\w+\.inc)>",
                  lambda match: "\n".join(declarations(match)), text)


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


def anchor_of(page, heading):
    """The anchor of a heading that links name as GitHub does: "Adding a layer" is adding-a-layer."""
    return f"{page}-" + re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")


def page_for_doxygen(path, headers):
    """Redirects links to public headers and to headings into the reference, and links to other files to copies."""
    def link(match):
        place, _, heading = match[2].partition("#")
        target = (PAGES / place).resolve() if place else path
        if target.parent == PAGES:
            return f"[{match[1]}](@ref {anchor_of(target.stem, heading)})" if heading else match[0]
        if target.relative_to(ROOT) in headers:
            return f"[{match[1]}](@ref attune/{target.relative_to(ROOT)})"
        if target.is_dir():
            target /= "README.md"
        copy = HTML / "tree" / target.relative_to(ROOT)
        if target.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
        return f'<a href="{copy.relative_to(HTML)}">{match[1]}</a>'

    text = re.sub(r"(?m)^(##+) (.*)$", lambda h: f"{h[0]} {{#{anchor_of(path.stem, h[2])}}}", path.read_text())
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
        text = re.sub(r"template <>[^;]*? std::[^;]*;", "", "\n".join(lines))  # a specialisation of the standard library
        copy.write_text(re.sub(r"et al\.(?=\s)", "et al.\\\\ ", text))
    for page in PAGES.glob("*.md"):
        (INPUT / page.name).write_text(page_for_doxygen(page, headers))
    for picture in PAGES.glob("*.svg"):
        shutil.copy(picture, INPUT)


def names_of_reference():
    """The declarations by full name, and the address of their documentation. Of the overloads of Tensor and Var, those
    of Var, which are declared later.
    """
    names = {}
    for compound in ElementTree.parse(OUT / "names.tag").getroot().iter("compound"):
        own = compound.findtext("name")
        if compound.get("kind") in ("class", "struct", "concept"):
            names[own] = compound.findtext("filename")
        for member in compound.findall("member"):
            if compound.get("kind") != "file" and member.get("kind") != "enumvalue":
                link = f"{member.findtext('anchorfile')}#{member.findtext('anchor')}"
                names[f"{own}::{member.findtext('name')}"] = link
    return names


def link_operations(page, names):
    """In the code of the tables of operations, links attune's names, in the first column, to their declarations. Removes
    the links of Doxygen, which also link names of PyTorch.
    """
    def link(name):
        places = (names.get(scope + name[0]) for scope in ("", "attune::", "attune::Tensor::", "attune::Var::"))
        return next((f'<a class="el" href="{place}">{name[0]}</a>' for place in places if place), name[0])

    def cells(row):
        plain = re.sub(r"<code>.*?</code>", lambda code: re.sub(r"</?a\b[^>]*>", "", code[0]), row[0])
        first, rest = plain.split("</td>", 1)
        called = r"(?<![\w.>:])(?:nn::)?[A-Za-z]\w*(?:::\w+)?(?=[({]|&lt;|$)|(?<=\bx\.)\w+(?=\()"
        return re.sub(r"(?<=<code>).*?(?=</code>)", lambda code: re.sub(called, link, code[0]), first) + "</td>" + rest

    return re.sub(r'<td class="markdownTableBodyNone">.*?</tr>', cells, page, flags=re.S)


def finish(path, names):
    """Gives a page one h1, its title, and headings in order. Removes scripts of Doxygen that the pages do not load."""
    page = path.read_text()
    if path.name.startswith("md_") or path.name == "index.html":
        page = re.sub(r"(</?)h([1-5])\b", lambda h: f"{h[1]}h{int(h[2]) + 1}", page)
    page = re.sub(r'<div class="title">(.*?)</div>', r'<h1 class="title">\1</h1>', page, flags=re.S)
    # The description precedes the list of members, in place of its first sentence.
    details = re.search(r'<a name="details" id="details"></a><h2 class="groupheader">Detailed Description</h2>\n(.*?)(?=<h2 class="groupheader|<hr/>|</div><!-- contents)', page, re.S)
    if details:
        page = page.replace(details[0], "")
        page = re.sub(r'<p>(?:(?!<p>).)*?href="[^"]*#details">More\.\.\.</a></p>', lambda _: f'<div id="details">{details[1]}</div>', page, count=1, flags=re.S)
    page = re.sub(r' on(?:dbl)?click="[^"]*"| style="display:none;"', "", page)
    if path.name == "md_operations.html":
        page = link_operations(page, names)
    path.write_text(page)
    levels = [0] + [int(level) for level in re.findall(r"<h([1-6])\b", page)]
    if levels.count(1) != 1 or any(b > a + 1 for a, b in zip(levels, levels[1:])):
        yield f"{path.name}: the levels of its headings are {levels[1:]}\n"
    for target in re.findall(r'(?:href|src|data)="([^"#:]+)["#]', page):
        if not (HTML / target).exists():
            yield f"{path.name}: {target} does not exist\n"


def finish_site():
    for page in HTML.glob("*.html"):  # lists of all names, which the search field replaces
        if re.fullmatch(r"(functions|globals|namespacemembers)(_(?!8hpp)\w+|_~|_func_~)?\.html", page.name):
            page.unlink()
    names = names_of_reference()
    (HTML / "names.js").write_text("const names = " + json.dumps(sorted(names.items()), separators=(",", ":")) + ";\n")
    shutil.copy(PAGES / "search.js", HTML)
    return "".join(error for page in sorted(HTML.glob("*.html")) for error in finish(page, names))


def main():
    if not shutil.which("doxygen"):
        sys.exit("doxygen is not installed: apt-get install doxygen")
    copy_input()
    done = subprocess.run(["doxygen", PAGES / "Doxyfile"], cwd=INPUT, text=True, capture_output=True,
                          env=os.environ | {"PAGES": str(PAGES)})
    warnings = done.stderr.replace(f"{INPUT}/attune/", "").replace(f"{INPUT}/", f"{PAGES.relative_to(ROOT)}/")
    broken = finish_site() if not done.returncode else ""
    print(warnings + broken, end="", file=sys.stderr)
    if done.returncode or broken:
        return 1
    print(f"{(HTML / 'index.html').relative_to(ROOT)}: no warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
