"""Each C++ block in README.md, CONTRIBUTING.md and the pages of examples/, bench/ and tests/install/
stands, line by line, in a program under examples/, which is built and run. Files and folders that
the pages link to exist.

Run with the source directory.
"""
import pathlib
import re
import sys


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(program, block):
    return any(program[i : i + len(block)] == block for i in range(len(program) - len(block) + 1))


def main():
    root = pathlib.Path(sys.argv[1])
    programs = [lines_of(path.read_text()) for path in sorted((root / "examples").glob("*.cpp"))]
    failed, blocks = [], 0
    pages = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder in ["examples", "bench", "tests/install"]:
        pages += sorted((root / folder).rglob("*.md"))
    for page in pages:
        name, text = page.relative_to(root), page.read_text()
        for block in re.findall(r"```cpp\n(.*?)```", text, re.S):
            blocks += 1
            if not any(contains(program, lines_of(block)) for program in programs):
                failed.append(f"{name}: this block stands in no program of examples/:\n{block}")
        for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            if not (page.parent / path).exists():
                failed.append(f"{name}: {path} does not exist")
    if blocks < 3:
        failed.append(f"only {blocks} C++ blocks were found")
    print("\n".join(failed) or f"{blocks} blocks of code stand in the examples")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
