"""Writes papers.json: the models of the papers, computed for one sentence at a time, without masks.

    /usr/bin/python3 tests/golden/make_papers.py

Implements the equations in models/papers.hpp, models/parts.hpp and nn/recurrent.hpp, with additive and
general attention (attention_family.json has the other scores and the windows). Models, options and
parameters have the names of the library. tests/models/papers_golden_test.cpp repeats CASES.
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

E, H, A, R, V_S, V_T = 2, 3, 4, 5, 7, 6
SOURCE, TARGET = [3, 1], [2, 3]

USUAL = {"bahdanau": "cell=gru encoder-layers=1 decoder-layers=1 score=additive reading=bidirectional",
         "luong": "cell=lstm encoder-layers=2 decoder-layers=2 score=general reading=forward input-feeding=yes",
         "encoder-decoder": "cell=gru encoder-layers=1 decoder-layers=1 reading=forward",
         "sutskever": "cell=lstm layers=1 reading=backward"}
USUAL["nematus"] = USUAL["bahdanau"]
CASES = [
    "bahdanau",
    "bahdanau cell=lstm encoder-layers=2 tied=target-output",
    "bahdanau cell=gru-reset-before coverage=summed",
    "nematus",
    "nematus cell=lstm tied=all",
    "luong",
    "luong cell=gru score=additive coverage=summed reading=bidirectional encoder-layers=1 input-feeding=no",
    "encoder-decoder",
    "sutskever",
    "sutskever cell=gru layers=2",
]


class Drawn(dict):
    """Parameters; each is drawn at its first use."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng


def parameter(p, name, *shape):
    if isinstance(p, Drawn) and name not in p:
        p[name] = p.rng.normal(*shape, scale=0.6)
    return p[name]


def gates_of(o):
    return 4 if o["cell"] == "lstm" else 3


def cell_input(p, o, name, x):
    columns = gates_of(o) * H
    return x @ parameter(p, name + ".W_x", len(x), columns) + parameter(p, name + ".b", columns)


def cell_step(p, o, name, xw, state):
    """xw is the input's contribution to the gates."""
    h, c = state
    W_h = parameter(p, name + ".W_h", H, gates_of(o) * H)

    def share(rows, first, last):
        return rows @ W_h[:, first * H:last * H]

    if o["cell"] == "lstm":
        i, f, g, out = (xw + share(h, 0, 4)).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(out) * torch.tanh(c), c
    r, z = torch.sigmoid(xw[:2 * H] + share(h, 0, 2)).chunk(2)
    if o["cell"] == "gru":
        n = torch.tanh(xw[2 * H:] + r * (share(h, 2, 3) + parameter(p, name + ".b_hn", H)))
    else:
        n = torch.tanh(xw[2 * H:] + share(r * h, 2, 3))
    return (1 - z) * n + z * h, None


def zeros(n):
    return torch.zeros(n, dtype=torch.float64)


def read_one_way(p, o, name, xs, backward):
    states, state = [], (zeros(H), zeros(H))
    for x in reversed(xs) if backward else xs:
        state = cell_step(p, o, name, cell_input(p, o, name, x), state)
        states.append(state[0])
    return states[::-1] if backward else states, state


def encode(p, o, xs):
    """Annotations, and the last state of each layer."""
    last = []
    for layer in range(1, int(o["encoder-layers"]) + 1):
        name = f"encoder.layer{layer}"
        if o["reading"] == "bidirectional":
            forward, _ = read_one_way(p, o, name + ".forward", xs, False)
            backward, state = read_one_way(p, o, name + ".backward", xs, True)
            xs = [torch.cat(pair) for pair in zip(forward, backward)]
        else:
            xs, state = read_one_way(p, o, name, xs, o["reading"] == "backward")
        last.append(state)
    return torch.stack(xs), last


def first_states(p, o, h, last):
    if o["model"] in ("luong", "sutskever"):
        return [last[min(layer, len(last) - 1)] for layer in range(int(o["decoder-layers"]))]
    seen = h.mean(0) if o["model"] == "nematus" else last[-1][0]
    return [(torch.tanh(seen @ parameter(p, "bridge.W", len(seen), H) + parameter(p, "bridge.b", H)), zeros(H))]


def attend(p, o, query, h, coverage):
    if o["score"] == "general":
        alpha = torch.softmax(h @ (query @ parameter(p, "attention.W_a", H, h.shape[1])), 0)
        return alpha @ h, alpha
    e = query @ parameter(p, "attention.W_a", H, A) + h @ parameter(p, "attention.U_a", h.shape[1], A)
    if o["coverage"] == "summed":
        e = e + coverage[:, None] * parameter(p, "attention.w_c", A)
    alpha = torch.softmax(torch.tanh(e) @ parameter(p, "attention.v_a", A), 0)
    return alpha @ h, alpha


def readout(p, o, y, s, c):
    if o["model"] in ("luong", "sutskever"):
        both = s if c is None else torch.cat([c, s])
        return torch.tanh(both @ parameter(p, "readout.W_c", len(both), o["R"]))
    columns = o["R"] * (1 if o["model"] == "nematus" else 2)
    t = s @ parameter(p, "readout.U_o", H, columns) + y @ parameter(p, "readout.V_o", E, columns) + \
        c @ parameter(p, "readout.C_o", len(c), columns) + parameter(p, "readout.b_o", columns)
    return torch.tanh(t) if o["model"] == "nematus" else torch.maximum(*t.chunk(2))


def table(p, o, name):
    tied = o["tied"] == "all"
    return parameter(p, "target.E" if tied else name + ".E", V_T if tied or name == "target" else V_S, E)


def logits_of(p, o, t):
    W = parameter(p, "output.W", o["R"], V_T) if o["tied"] == "none" else table(p, o, "target").T
    return t @ W + parameter(p, "output.b", V_T)


def step(p, o, y, h, context, now):
    """One decoder step: the readout, the attention weights and the next state."""
    c, alpha = context, None
    states = list(now["states"])
    xw = cell_input(p, o, "decoder.layer1", y)
    if o["model"] == "bahdanau":
        c, alpha = attend(p, o, states[0][0], h, now["coverage"])
    if o["model"] in ("bahdanau", "encoder-decoder"):
        xw = xw + c @ parameter(p, "decoder.W_c", len(c), gates_of(o) * H)
    if o["input-feeding"] == "yes":
        xw = xw + now["fed"] @ parameter(p, "decoder.W_feed", o["R"], gates_of(o) * H)
    for layer in range(len(states)):
        name = f"decoder.layer{layer + 1}"
        states[layer] = cell_step(p, o, name, xw if layer == 0 else cell_input(p, o, name, top), states[layer])
        top = states[layer][0]
    if o["model"] == "nematus":
        c, alpha = attend(p, o, top, h, now["coverage"])
        states[0] = cell_step(p, o, "decoder.second", cell_input(p, o, "decoder.second", c), states[0])
        top = states[0][0]
    if o["model"] == "luong":
        c, alpha = attend(p, o, top, h, now["coverage"])
    t = readout(p, o, y, top, c)
    coverage = now["coverage"] if alpha is None else now["coverage"] + alpha
    return t, alpha, {"states": states, "fed": t, "coverage": coverage}


def sentence(p, o, source, previous):
    """Logits and attention weights of all words."""
    h, last = encode(p, o, [table(p, o, "source")[w] for w in source])
    context = last[-1][0] if o["model"] == "encoder-decoder" else None
    now = {"states": first_states(p, o, h, last), "fed": zeros(o["R"]), "coverage": zeros(len(h))}
    logits, weights = [], []
    for word in previous:
        t, alpha, now = step(p, o, table(p, o, "target")[word], h, context, now)
        logits.append(logits_of(p, o, t))
        weights.append(zeros(max(SOURCE)) if alpha is None else F.pad(alpha, (0, max(SOURCE) - len(alpha))))
    return torch.stack(logits), torch.stack(weights)


def model(o, ids):
    def run(p):
        logits, weights, total = [], [], 0
        for b in range(len(SOURCE)):
            l, w = sentence(p, o, ids["source"][:SOURCE[b], b], ids["previous"][:TARGET[b], b])
            total = total + F.cross_entropy(l, ids["next"][:TARGET[b], b], reduction="sum")
            logits.append(F.pad(l, (0, 0, 0, max(TARGET) - TARGET[b])))
            weights.append(F.pad(w, (0, 0, 0, max(TARGET) - TARGET[b])))
        outputs = {"loss": total / sum(TARGET), "logits": torch.stack(logits, 1)}
        if o["model"] not in ("encoder-decoder", "sutskever"):
            outputs["weights"] = torch.stack(weights, -1)
        return outputs
    return run


def options(text):
    name, *changes = text.split()
    o = {"model": name, "tied": "none", "coverage": "none", "input-feeding": "no"}
    o.update(option.split("=") for option in [*USUAL[name].split(), *changes])
    if "layers" in o:
        o["encoder-layers"] = o["decoder-layers"] = o["layers"]
    o["R"] = H if name == "luong" else R if o["tied"] == "none" else E
    return o


def main():
    torch.set_num_threads(1)
    case, rng = Case("papers"), Random(77)
    for number, text in enumerate(CASES):
        o = options(text)
        ids = {"source": rng.integers(max(SOURCE), len(SOURCE), low=3, high=V_T if o["tied"] == "all" else V_S),
               "previous": rng.integers(max(TARGET), len(SOURCE), low=1, high=V_T),
               "next": rng.integers(max(TARGET), len(SOURCE), low=2, high=V_T)}
        masks = {"source_mask": mask_of(SOURCE, max(SOURCE)), "target_mask": mask_of(TARGET, max(TARGET))}
        drawn = Drawn(rng)
        model(o, ids)(drawn)
        evaluate(case, rng, model(o, ids), dict(drawn), {**ids, **masks}, prefix=f"{number}/",
                 no_cotangent=("logits", "weights"), cotangents={"loss": torch.ones((), dtype=torch.float64)})
    case.write()


if __name__ == "__main__":
    main()
