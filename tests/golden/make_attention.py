"""Writes attention_family.json: every attention score with every window.

    python3 tests/golden/make_attention.py

attune computes whole batches in fused kernels. This script implements the equations of the papers (see
nn/attention.hpp) with loops over sentences and positions. README.md describes the layout of the file.
Prefixes are "SCORE/WINDOW/", and "SCORE with coverage/WINDOW/" for scores that depend on a coverage (See,
Liu and Manning, 2017, equation 11, and nn/attention.hpp).
"""

import math

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

S, B, SIZE, A, LONGEST, HEADS = 4, 2, 2, 4, 5, 2
LENGTHS = [4, 1]
STEP, HALF_WIDTH = 2, 1


def dot(p, s, h, j):
    return s @ h[j]


def scaled_dot(p, s, h, j):
    return s @ h[j] / math.sqrt(SIZE)


def general(p, s, h, j):
    return s @ p["W_a"] @ h[j]


def concat(p, s, h, j, seen=0):
    return p["v_a"] @ torch.tanh(torch.cat([s, h[j]]) @ p["W_a"] + seen)


def additive(p, s, h, j, seen=0):
    return p["v_a"] @ torch.tanh(s @ p["W_a"] + h[j] @ p["U_a"] + seen)


def location(p, s, h, j):
    return (s @ p["W_a"])[j]


def cosine(p, s, h, j):
    beta = F.softplus(s @ p["beta.W"] + p["beta.b"])[0]
    return beta * F.cosine_similarity(s, h[j], dim=0)


def multi_head(head):
    def score(p, s, h, j):
        width = A // HEADS
        part = slice(head * width, (head + 1) * width)
        return (s @ p["W_q"])[part] @ (h[j] @ p["W_k"])[part] / math.sqrt(width)
    return score


def covered(score, b):
    """The score that depends on the coverage of sentence b."""
    def function(p, s, h, j):
        coverage = p["coverage"][j, b]
        if score in (additive, concat):
            return score(p, s, h, j, coverage * p["w_c"])
        return score(p, s, h, j) + coverage * (s @ p["w_c"])
    return function


def positions_of(window, p, s, length):
    """The positions in the window, and the centre p_t (None if the window has none)."""
    if window == "global":
        return list(range(length)), None
    if window == "local-m":
        centre = min(STEP, length - 1)
        return [j for j in range(length) if abs(j - centre) <= HALF_WIDTH], None
    centre = length * torch.sigmoid(p["v_p"] @ torch.tanh(s @ p["W_p"]))
    return [j for j in range(length) if abs(j - centre.item()) <= HALF_WIDTH], centre


def weights_of(score, window, p, s, h, length):
    """Attention weights of all S positions; zero outside of the window."""
    positions, centre = positions_of(window, p, s, length)
    alpha = torch.softmax(torch.stack([score(p, s, h, j) for j in positions]), 0)
    if centre is not None:
        sigma = HALF_WIDTH / 2
        alpha = alpha * torch.stack([torch.exp(-(j - centre) ** 2 / (2 * sigma ** 2)) for j in positions])
    whole = [torch.zeros((), dtype=torch.float64)] * S
    for j, a in zip(positions, alpha):
        whole[j] = a
    return torch.stack(whole)


def attend(name, window, coverage):
    def function(p):
        contexts, weights = [], []
        for b in range(B):
            s, h = p["state"][b], p["memory"][:, b]
            seen = (lambda score: covered(score, b)) if coverage else (lambda score: score)
            if name == "multi_head":
                read = h @ p["W_v"]
                heads = [weights_of(seen(multi_head(k)), window, p, s, h, LENGTHS[b]) for k in range(HEADS)]
                width = SIZE // HEADS
                contexts.append(torch.cat([w @ read[:, k * width:(k + 1) * width] for k, w in enumerate(heads)]))
                weights.append(torch.stack(heads))
            else:
                w = weights_of(seen(SCORES[name][0]), window, p, s, h, LENGTHS[b])
                contexts.append(w @ h)
                weights.append(w)
        return {"context": torch.stack(contexts), "weights": torch.stack(weights, -1)}
    return function


SCORES = {
    "additive": (additive, {"W_a": (SIZE, A), "U_a": (SIZE, A), "v_a": (A,)}),
    "dot": (dot, {}),
    "scaled_dot": (scaled_dot, {}),
    "general": (general, {"W_a": (SIZE, SIZE)}),
    "concat": (concat, {"W_a": (2 * SIZE, A), "v_a": (A,)}),
    "location": (location, {"W_a": (SIZE, LONGEST)}),
    "cosine": (cosine, {"beta.W": (SIZE, 1), "beta.b": (1,)}),
    "multi_head": (None, {"W_q": (SIZE, A), "W_k": (SIZE, A), "W_v": (SIZE, SIZE)}),
}


def add_case(case, rng, name, window, coverage):
    variables = {"state": rng.normal(B, SIZE), "memory": rng.normal(S, B, SIZE)}
    variables.update({n: rng.normal(*shape, scale=0.7) for n, shape in SCORES[name][1].items()})
    if coverage:
        variables["coverage"] = rng.uniform(S, B, low=0, high=1.5)
        variables["w_c"] = rng.normal(A if name in ("additive", "concat") else SIZE)
    if window == "local-p":
        variables.update({"W_p": rng.normal(SIZE, SIZE), "v_p": rng.normal(SIZE)})
    score = name + " with coverage" if coverage else name
    evaluate(case, rng, attend(name, window, coverage), variables, {"mask": mask_of(LENGTHS, S)},
             prefix=f"{score}/{window}/")


def main():
    torch.set_num_threads(1)
    case = Case("attention_family")
    rng = Random(120)
    for coverage in (False, True):
        for name in SCORES:
            for window in ("global", "local-m", "local-p"):
                add_case(case, rng, name, window, coverage)
    case.write()


if __name__ == "__main__":
    main()
