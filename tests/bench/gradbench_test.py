"""build/bench/gradbench prints values and gradients in the form of GradBench: the values are those of GradBench's
manual C++ code, the gradients those of central differences.

Argument: build/bench/gradbench.
"""
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile


def matrix(rows, columns, shift):
    return [[math.sin(1 + i * columns + j + shift) for j in range(columns)] for i in range(rows)]


INPUTS = {
    "lstm": dict(main_params=matrix(4, 12, 0), extra_params=matrix(3, 3, 1), state=matrix(4, 3, 2),
                 sequence=[[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]]),
    "gmm": dict(d=3, k=2, n=4, alpha=matrix(1, 2, 0)[0], mu=matrix(2, 3, 1), q=matrix(2, 3, 2), l=matrix(2, 3, 3),
                x=matrix(4, 3, 4), m=2, gamma=1.5),
}
VALUES = {"lstm": 0.9427946554683833, "gmm": -36.607409902310174}
PARAMETERS = {"lstm": ["main_params", "extra_params"], "gmm": ["alpha", "mu", "q", "l"]}


def output(name, given, function):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "input.json"
        path.write_text(json.dumps(given))
        done = subprocess.run([sys.argv[1], name, path, function], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines[1:]] == ["prepare", "evaluate"]
    return lines[0]


def flat(x):
    return [v for y in x for v in flat(y)] if isinstance(x, list) else [x]


def difference(name, given, parameter, at):
    sides = []
    for step in (1e-5, -1e-5):
        moved = copy.deepcopy(given)
        row = moved[parameter]
        for i in at[:-1]:
            row = row[i]
        row[at[-1]] += step
        sides.append(output(name, moved, "objective"))
    return (sides[0] - sides[1]) / 2e-5


for name, given in INPUTS.items():
    value = output(name, given, "objective")
    assert abs(value - VALUES[name]) <= 1e-12 * abs(value), (name, value)
    gradient = output(name, given, "jacobian")
    expected = []
    for parameter in PARAMETERS[name]:
        rows = given[parameter]
        places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))] if isinstance(rows[0], list) else [[i] for i in range(len(rows))]
        expected += [difference(name, given, parameter, at) for at in places]
    computed = flat(gradient if name == "lstm" else [gradient[p] for p in PARAMETERS[name]])
    assert len(computed) == len(expected)
    assert all(abs(c - e) <= 1e-8 * max(1, abs(e)) for c, e in zip(computed, expected)), name
done = subprocess.run([sys.argv[1], "ode", "x", "jacobian"], text=True, capture_output=True)
assert done.returncode == 1 and done.stderr.startswith("Usage: "), done
