"""Writes operations.json: operations with edge cases.

    python3 tests/golden/make_operations.py

README.md describes the layout of the file.
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate


def main():
    torch.set_num_threads(1)
    case = Case("operations")
    rng = Random(76)

    zeros = rng.normal(4, 5)
    zeros[1, 2] = zeros[0, 4] = zeros[2, 4] = zeros[3, 0] = 0  # one, two and no zeros in a row
    for axis in (0, 1):
        evaluate(case, rng, lambda p: {"y": torch.cumprod(p["x"], axis)}, {"x": zeros}, prefix=f"cumprod {axis}/")

    for axis, ids in ((0, [4, 0, 2]), (1, [1, 3])):
        ids = torch.tensor(ids)
        x = rng.normal(5, 4, 2)
        rows = rng.normal(*x.index_select(axis, ids).shape)
        evaluate(case, rng, lambda p: {"y": p["x"].index_copy(axis, p["ids"], p["rows"])}, {"x": x, "rows": rows},
                 {"ids": ids}, prefix=f"scatter {axis}/")

    equations = {"...ij,...jk->...ik": ((2, 1, 3, 4), (5, 4, 2)), "...ij,jk": ((2, 3, 4), (4, 2)), "ij,jk->ik": ((3, 1), (4, 2)),
                 "b...,b->...": ((3, 2, 4), (3,)), "...i,...i->i": ((2, 3), (4, 1, 3)), "i...->...": ((3, 2),),
                 "i,i,i->": ((1,), (3,), (1,)), "i...j,k...->k...i": ((2, 3, 4), (5, 1))}
    for i, (equation, shapes) in enumerate(equations.items()):
        evaluate(case, rng, lambda p: {"y": torch.einsum(equation, *p.values())},
                 {"abc"[k]: rng.normal(*shape) for k, shape in enumerate(shapes)}, prefix=f"einsum {i}/",
                 cotangents={"y": torch.tensor(1.0, dtype=torch.float64)} if equation.endswith("->") else None)

    logits = rng.normal(3, 4, scale=3)
    targets = torch.tensor([[1, 0, 0, 0], [0.25, 0.25, 0.5, 0], [0.125, 0.75, 0, 0.125]], dtype=torch.float64)
    for reduction in ("sum", "mean"):
        evaluate(case, rng, lambda p: {"y": F.cross_entropy(p["logits"], p["targets"], reduction=reduction)},
                 {"logits": logits, "targets": targets}, prefix=f"cross_entropy {reduction}/",
                 cotangents={"y": torch.tensor(1.0, dtype=torch.float64)})

    a = torch.tensor([-7, 7, -7, 7, 6, 0, 2147483647, -2147483648])
    b = torch.tensor([2, -2, -2, 2, -3, 5, -1000, 3])
    case.add_all({"a": a, "b": b, "quotient": a // b, "remainder": a % b}, "integers/")
    x = torch.arange(7.0, dtype=torch.float64)
    for n in (1, 3, 4, 9):
        case.add(f"chunk {n}/sizes", torch.tensor([len(part) for part in x.chunk(n)]))
    case.write()


if __name__ == "__main__":
    main()
