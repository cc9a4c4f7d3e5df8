"""Checks README.md, CONTRIBUTING.md and the pages of the folders: every C++ block occurs, line by line,
in a program under examples/, which is built and run, and one with a main function is the whole program;
every linked file exists. The page of operations lists exactly the operations that the headers declare.

Argument: the source directory.
"""
import pathlib
import re
import sys


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def contains(program, block):
    return any(program[i : i + len(block)] == block for i in range(len(program) - len(block) + 1))


HEADERS_OF_OPERATIONS = """tensor/functions.inc tensor/operators.inc tensor/tensor.hpp tensor/elementwise.hpp tensor/reduce.hpp
    tensor/arrange.hpp tensor/index.hpp tensor/random.hpp tensor/matmul.hpp autograd/var.hpp autograd/ops.hpp
    autograd/compositions.hpp autograd/loss.hpp autograd/attention_ops.hpp autograd/recurrent.hpp autograd/grad.hpp""".split()
# Declarations that are no operations: kernels and checks.
NO_OPERATION = "_(forward|backward)$|^(require|checked)_"
# Placeholders in the page's code for functions of the reader.
PLACEHOLDERS = {"f", "loss", "tokens"}


def declared_in(header):
    """The functions that a header declares outside of classes and namespace `detail`. A macro declares
    its first argument.
    """
    text = re.sub(r"namespace detail \{.*?\n\}  // namespace detail", "", header.read_text(), flags=re.S)
    names = re.findall(r"^(?!//|#|using |return )\w[^\n(]*[ &*>](\w+)\(", text, re.M)
    return set(names + re.findall(r"^ATTUNE_\w+\((\w+),", text, re.M)) - {"op", "name"}


def code_of_tables(page):
    """The code in the first and last columns of a page's tables; middle columns have other names."""
    for row in re.findall(r"^\| (.*) \|$", page.read_text(), re.M):
        first, *middle, last = re.split(r"(?<!\\) \|", row)
        yield from re.findall(r"`([^`]+)`", first + last)


def wrong_operations(root):
    """Yields errors: operations without a row, and names in the tables that no header declares."""
    shown = list(code_of_tables(root / "examples/reference/operations.md"))
    words = set(re.findall(r"\w+\b(?!::)", " ".join(shown)))
    for header in HEADERS_OF_OPERATIONS:
        names = {name for name in declared_in(root / header) if not re.search(NO_OPERATION, name)}
        if not names:
            yield f"{header}: no declarations were found"
        yield from (f"operations.md: {name} of {header} is missing" for name in sorted(names - words))
    layers = [root / layer for layer in ("tensor", "autograd", "nn")]
    code = "\n".join(path.read_text() for layer in layers for path in layer.rglob("*.hpp"))
    known = set(re.findall(r"\w+", re.sub("//.*", "", code))) .union(
        *(declared_in(root / header) for header in HEADERS_OF_OPERATIONS[:2])
    )
    for text in shown:
        names = {a or b for a, b in re.findall(r"(?<![\w.])([a-z]\w*)\(|nn::(\w+)", text)}
        for name in names - known - PLACEHOLDERS:
            yield f"operations.md: {name} in `{text}` is not declared by any header"


def main():
    root = pathlib.Path(sys.argv[1])
    programs = [lines_of(path.read_text()) for path in sorted((root / "examples").glob("*.cpp"))]
    failed, blocks = [], 0
    pages = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder in ["tensor", "autograd", "nn", "models", "examples", "bench", "tests/install"]:
        pages += sorted((root / folder).rglob("*.md"))
    for page in pages:
        name, text = page.relative_to(root), page.read_text()
        for block in re.findall(r"```cpp\n(.*?)```", text, re.S):
            blocks += 1
            found = [program for program in programs if contains(program, lines_of(block))]
            if not found or ("int main()" in block and lines_of(block) not in found):
                failed.append(f"{name}: no program of examples/ contains this block:\n{block}")
        for path in re.findall(r"[^[]\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            if not (page.parent / path).exists():
                failed.append(f"{name}: {path} does not exist")
    failed += wrong_operations(root)
    if blocks < 3:
        failed.append(f"only {blocks} C++ blocks were found")
    print("\n".join(failed) or f"{blocks} blocks of code, all in the examples")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
