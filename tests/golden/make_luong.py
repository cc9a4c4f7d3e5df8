"""Writes luong.json: a tiny two-layer model of Luong et al. (2015) with input feeding and the score
"general", one sentence at a time and without masks.

    /usr/bin/python3 tests/golden/make_luong.py

Names are those of models/papers.hpp; the layout of the file is that of the others (README.md).
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

E, H, V_S, V_T = 3, 4, 9, 8
SOURCE, TARGET = [5, 2, 3], [3, 4, 1]
NAMES = [f"{side}.layer{layer}" for side in ("encoder", "decoder") for layer in (1, 2)]


def cell(p, name, x, h, c, extra=0):
    i, f, g, o = (x @ p[name + ".W_x"] + h @ p[name + ".W_h"] + p[name + ".b"] + extra).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def climb(p, side, x, states, extra=0):
    """One step of both layers."""
    states = list(states)
    for layer in (0, 1):
        states[layer] = cell(p, f"{side}.layer{layer + 1}", x, *states[layer], extra if layer == 0 else 0)
        x = states[layer][0]
    return x, states


def sentence_loss(p, source, previous, following):
    zero = torch.zeros(H, dtype=torch.float64)
    states, memory = [(zero, zero), (zero, zero)], []
    for word in source:
        top, states = climb(p, "encoder", p["source.E"][word], states)
        memory.append(top)
    memory = torch.stack(memory)
    attentional, total, weights = zero, 0.0, []
    for word, target in zip(previous, following):
        top, states = climb(p, "decoder", p["target.E"][word], states, attentional @ p["decoder.W_feed"])
        alpha = torch.softmax(memory @ (top @ p["attention.W_a"]), 0)
        attentional = torch.tanh(torch.cat([alpha @ memory, top]) @ p["readout.W_c"])
        logits = attentional @ p["output.W"] + p["output.b"]
        total = total - torch.log_softmax(logits, 0)[target]
        weights.append(F.pad(alpha, (0, max(SOURCE) - len(alpha))))
    return total, torch.stack(weights)


def main():
    torch.set_num_threads(1)
    case, rng = Case("luong"), Random(121)
    ids = {"source": rng.integers(max(SOURCE), 3, low=4, high=V_S),
           "previous": rng.integers(max(TARGET), 3, low=4, high=V_T),
           "next": rng.integers(max(TARGET), 3, low=2, high=V_T)}
    masks = {"source_mask": mask_of(SOURCE, max(SOURCE)), "target_mask": mask_of(TARGET, max(TARGET))}
    p = {"source.E": rng.normal(V_S, E), "target.E": rng.normal(V_T, E)}
    for name in NAMES:
        p[name + ".W_x"] = rng.normal(E if name.endswith("1") else H, 4 * H, scale=0.5)
        p[name + ".W_h"] = rng.normal(H, 4 * H, scale=0.5)
        p[name + ".b"] = rng.normal(4 * H, scale=0.5)
    p.update({"decoder.W_feed": rng.normal(H, 4 * H, scale=0.5), "attention.W_a": rng.normal(H, H),
              "readout.W_c": rng.normal(2 * H, H, scale=0.5), "output.W": rng.normal(H, V_T),
              "output.b": rng.normal(V_T)})

    def model(q):
        losses, weights = [], []
        for b in range(3):
            loss, alpha = sentence_loss(q, ids["source"][:SOURCE[b], b], ids["previous"][:TARGET[b], b],
                                        ids["next"][:TARGET[b], b])
            losses.append(loss)
            weights.append(F.pad(alpha, (0, 0, 0, max(TARGET) - TARGET[b])))
        return {"loss": sum(losses) / sum(TARGET), "weights": torch.stack(weights, -1)}

    evaluate(case, rng, model, p, {**ids, **masks}, no_cotangent=("weights",),
             cotangents={"loss": torch.ones((), dtype=torch.float64)})
    case.write()


if __name__ == "__main__":
    main()
