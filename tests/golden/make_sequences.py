"""Writes sequences.json: convolutions over time, CTC, and the location-aware score.

    /usr/bin/python3 tests/golden/make_sequences.py

Uses PyTorch's conv1d, for each sequence separately, and ctc_loss. README.md describes the layout of the
file.
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

T, B, D, N = 7, 3, 4, 3
LENGTHS = [7, 5, 4]


def conv1d(width, stride, padding):
    """Convolves each sequence separately, and pads with zeros to the longest result."""
    def function(p):
        weight = p["W"].reshape(width, D, N).permute(2, 1, 0)  # torch has (out, in, width)
        rows = [F.conv1d(p["x"][:length, b].t()[None], weight, p["b"], stride, padding)[0].t()
                for b, length in enumerate(LENGTHS)]
        longest = max(len(row) for row in rows)
        return {"y": torch.stack([F.pad(row, (0, 0, 0, longest - len(row))) for row in rows], 1)}
    return function


def add_conv1d(case, rng, width, stride, padding):
    variables = {"x": rng.normal(T, B, D), "W": rng.normal(width * D, N), "b": rng.normal(N)}
    lengths = [(length + 2 * padding - width) // stride + 1 for length in LENGTHS]
    y_mask = mask_of(lengths, max(lengths))
    evaluate(case, rng, conv1d(width, stride, padding), variables, {"mask": mask_of(LENGTHS, T)},
             prefix=f"conv1d {width} {stride} {padding}/", padded={"y": y_mask})
    case.add(f"conv1d {width} {stride} {padding}/y_mask", y_mask)


def add_ctc(case, rng):
    """Labels with repetitions, a sequence with the minimum number of frames, and one without labels."""
    frames, labels = [9, 6, 4, 3], [[1, 2, 2, 4], [3, 3, 3], [4, 1, 2, 3], []]
    V, U = 5, 4
    padded = torch.tensor([row + [0] * (U - len(row)) for row in labels])
    counts = [len(row) for row in labels]

    def losses(p):
        return F.ctc_loss(torch.log_softmax(p["logits"], -1), padded, torch.tensor(frames),
                          torch.tensor(counts), reduction="none")

    constants = {"mask": mask_of(frames, 9), "labels": padded.t(), "labels_mask": mask_of(counts, U)}
    for name, f in (("sum", lambda p: losses(p).sum()), ("mean", lambda p: losses(p).sum() / sum(counts))):
        evaluate(case, rng, lambda p: {"loss": f(p)}, {"logits": rng.normal(9, 4, V, scale=3)}, constants,
                 prefix=f"ctc {name}/", cotangents={"loss": torch.tensor(1.0, dtype=torch.float64)})


def add_location_aware(case, rng):
    """Chorowski et al. (2015), equations 8 and 9, computed position by position."""
    S, Q, A, K, r = 6, 4, 5, 2, 2

    def function(p):
        alpha = F.pad(p["alpha"], (0, 0, r, r))
        e = torch.stack([
            torch.stack([
                p["v_a"] @ torch.tanh(p["state"][b] @ p["W_a"] + p["h"][j, b] @ p["U_a"] + p["b_a"] +
                                      alpha[j:j + 2 * r + 1, b] @ p["F"] @ p["U_f"])
                for b in range(B)]) for j in range(S)])
        return {"e": e}

    variables = {"state": rng.normal(B, Q), "h": rng.normal(S, B, D), "alpha": rng.uniform(S, B, low=0, high=1),
                 "W_a": rng.normal(Q, A), "U_a": rng.normal(D, A), "b_a": rng.normal(A), "v_a": rng.normal(A),
                 "F": rng.normal(2 * r + 1, K), "U_f": rng.normal(K, A)}
    evaluate(case, rng, function, variables, prefix="location_aware/")


def main():
    torch.set_num_threads(1)
    case = Case("sequences")
    rng = Random(140)
    for width, stride, padding in ((3, 1, 0), (3, 1, 1), (4, 2, 1), (2, 3, 0), (1, 1, 2)):
        add_conv1d(case, rng, width, stride, padding)
    add_ctc(case, rng)
    add_location_aware(case, rng)
    case.write()


if __name__ == "__main__":
    main()
