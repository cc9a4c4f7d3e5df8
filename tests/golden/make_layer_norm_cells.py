"""Writes layer_norm_cells.json: LSTM and GRU with layer normalisation inside, one sentence at a
time and without masks.

    /usr/bin/python3 tests/golden/make_layer_norm_cells.py

The equations are those of nn/lstm.hpp and nn/gru.hpp; the layout of the file is that of the others
(README.md). Prefixes are "lstm/", "gru/", "gru_reset_before/", and with "_reverse" those that read
each sentence from its last word.
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

IN, H = 2, 4
LENGTHS = [5, 1, 3]


def normalized(a, gain):
    return F.layer_norm(a, a.shape, weight=gain)


def gates(p, name, v, count):
    """The share of v in every gate, each normalised by itself."""
    blocks, gains = (v @ p["W_" + name]).chunk(count), p["gain_" + name].chunk(count)
    return [normalized(a, gain) for a, gain in zip(blocks, gains)]


def lstm(p, x, h, c):
    i, f, g, o = [a + u + b for a, u, b in zip(gates(p, "x", x, 4), gates(p, "h", h, 4), p["b"].chunk(4))]
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(normalized(c, p["gain_c"]) + p["bias_c"]), c


def gru(p, x, h, reset_after):
    (x_r, x_z, x_n), (h_r, h_z, h_n) = gates(p, "x", x, 3), gates(p, "h", h, 3)
    b_r, b_z, b_n = p["b"].chunk(3)
    r, z = torch.sigmoid(x_r + h_r + b_r), torch.sigmoid(x_z + h_z + b_z)
    if reset_after:
        n = torch.tanh(x_n + b_n + r * (h_n + p["b_hn"]))
    else:
        n = torch.tanh(x_n + b_n + gates(p, "h", r * h, 3)[2])
    return ((1 - z) * n + z * h,)


def run(step, p, names, reverse):
    """All sentences; `names` are those of the state."""
    results = {"h": [], **{n + "_last": [] for n in names}}
    for b, length in enumerate(LENGTHS):
        state, outputs = [p[n + "0"][b] for n in names], [None] * length
        for t in reversed(range(length)) if reverse else range(length):
            state = step(p, p["x"][t, b], *state)
            outputs[t] = state[0]
        results["h"].append(F.pad(torch.stack(outputs), (0, 0, 0, max(LENGTHS) - length)))
        for n, last in zip(names, state):
            results[n + "_last"].append(last)
    return {n: torch.stack(rows, 1 if n == "h" else 0) for n, rows in results.items()}


def parameters(rng, count, names):
    p = {"x": rng.normal(max(LENGTHS), len(LENGTHS), IN)}
    p.update({n + "0": rng.normal(len(LENGTHS), H) for n in names})
    p.update({"W_x": rng.normal(IN, count * H), "W_h": rng.normal(H, count * H),
              "b": rng.normal(count * H), "gain_x": rng.normal(count * H), "gain_h": rng.normal(count * H)})
    return p


def main():
    torch.set_num_threads(1)
    case, rng = Case("layer_norm_cells"), Random(151)
    mask = mask_of(LENGTHS, max(LENGTHS))
    cells = {
        "lstm": (lstm, "hc", {**parameters(rng, 4, "hc"), "gain_c": rng.normal(H), "bias_c": rng.normal(H)}),
        "gru": (lambda p, x, h: gru(p, x, h, True), "h", {**parameters(rng, 3, "h"), "b_hn": rng.normal(H)}),
        "gru_reset_before": (lambda p, x, h: gru(p, x, h, False), "h", parameters(rng, 3, "h")),
    }
    for name, (step, names, p) in cells.items():
        for reverse in (False, True):
            evaluate(case, rng, lambda q: run(step, q, names, reverse), p, {"mask": mask},
                     prefix=name + ("_reverse/" if reverse else "/"), padded={"h": mask})
    case.write()


if __name__ == "__main__":
    main()
