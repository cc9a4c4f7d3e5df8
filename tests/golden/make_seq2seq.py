"""Writes seq2seq.json: the general model in many wirings, one sentence at a time and without masks.

    /usr/bin/python3 tests/golden/make_seq2seq.py

Straight from the equations in models/seq2seq.hpp, models/parts.hpp and
nn/recurrent.hpp, with additive attention (the other scores and the windows are in
attention_family.json). Options and parameters have the library's names; CASES is repeated in
tests/models/seq2seq_golden_test.cpp.
"""

import torch
import torch.nn.functional as F

from make_golden import Case, Random, evaluate, mask_of

E, H, A, R, V_S, V_T = 3, 4, 5, 6, 9, 8
SOURCE, TARGET = [4, 1, 3], [2, 3, 1]

USUAL = {"encoder-cell": "gru", "decoder-cell": "gru", "reading": "bidirectional", "encoder-layers": "1",
         "decoder-layers": "1", "residual": "no", "start": "bridge", "attend": "before",
         "input-feeding": "no", "readout-kind": "tanh", "readout-layers": "1", "readout-state": "current",
         "tied": "none", "coverage": "none", "self-attention": "0"}
CASES = [
    "attend=between start=mean",
    "attend=between start=mean decoder-cell=lstm decoder-layers=2 residual=yes",
    "attend=last-state reading=forward readout-kind=maxout",
    "attend=never reading=backward start=last encoder-cell=lstm decoder-cell=lstm readout-kind=attentional",
    "attend=after reading=forward start=last readout-kind=attentional input-feeding=yes encoder-layers=2"
    " decoder-layers=2 residual=yes",
    "attend=before encoder-layers=2 residual=yes encoder-cell=gru-reset-before input-feeding=yes",
    "attend=before decoder-cell=gru-reset-before readout-state=previous readout-layers=3 start=zero",
    "attend=after coverage=summed start=mean decoder-layers=2 readout-kind=maxout",
    "attend=before tied=target-output self-attention=2 start=last encoder-cell=lstm decoder-cell=lstm",
    "attend=between tied=all start=zero decoder-cell=lstm input-feeding=yes",
    "attend=before encoder-cell=lstm decoder-cell=lstm",
]


class Drawn(dict):
    """Parameters, each drawn when it is first asked for."""

    def __init__(self, rng):
        super().__init__()
        self.rng = rng

    def __missing__(self, key):
        raise KeyError(key)


def parameter(p, name, *shape):
    if isinstance(p, Drawn) and name not in p:
        p[name] = p.rng.normal(*shape, scale=0.6)
    return p[name]


def cell_input(p, o, name, kind, x):
    gates = 4 if kind == "lstm" else 3
    return x @ parameter(p, name + ".W_x", len(x), gates * H) + parameter(p, name + ".b", gates * H)


def cell_step(p, o, name, kind, xw, state):
    """xw is the input's share of the gates."""
    h, c = state
    gates = 4 if kind == "lstm" else 3
    W_h = parameter(p, name + ".W_h", H, gates * H)

    def share(rows, first, last):
        return rows @ W_h[:, first * H:last * H]

    if kind == "lstm":
        i, f, g, out = (xw + share(h, 0, 4)).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(out) * torch.tanh(c), c
    r, z = torch.sigmoid(xw[:2 * H] + share(h, 0, 2)).chunk(2)
    if kind == "gru":
        n = torch.tanh(xw[2 * H:] + r * (share(h, 2, 3) + parameter(p, name + ".b_hn", H)))
    else:
        n = torch.tanh(xw[2 * H:] + share(r * h, 2, 3))
    return (1 - z) * n + z * h, None


def zero_state():
    return torch.zeros(H, dtype=torch.float64), torch.zeros(H, dtype=torch.float64)


def read_one_way(p, o, name, xs, backward):
    states, state = [], zero_state()
    for x in reversed(xs) if backward else xs:
        kind = o["encoder-cell"]
        state = cell_step(p, o, name, kind, cell_input(p, o, name, kind, x), state)
        states.append(state[0])
    return states[::-1] if backward else states, state


def self_attention(p, heads, h):
    size = h.shape[1]

    def affine(part, x, columns):
        name = f"encoder.self_attention.{part}"
        return x @ parameter(p, name + ".W", size, columns) + parameter(p, name + ".b", columns)

    q, (k, v) = affine("query", h, size), affine("memory", h, 2 * size).chunk(2, -1)
    width, read = size // heads, []
    for i in range(heads):
        part = slice(i * width, (i + 1) * width)
        read.append(torch.softmax(q[:, part] @ k[:, part].T / width ** 0.5, -1) @ v[:, part])
    return affine("output", torch.cat(read, -1), size)


def encode(p, o, xs):
    """Annotations, and each layer's last state."""
    last = []
    for layer in range(1, int(o["encoder-layers"]) + 1):
        name = f"encoder.layer{layer}"
        if o["reading"] == "bidirectional":
            forward, _ = read_one_way(p, o, name + ".forward", xs, False)
            backward, state = read_one_way(p, o, name + ".backward", xs, True)
            ys = [torch.cat(pair) for pair in zip(forward, backward)]
        else:
            ys, state = read_one_way(p, o, name, xs, o["reading"] == "backward")
        last.append(state)
        xs = [y + x for y, x in zip(ys, xs)] if layer > 1 and o["residual"] == "yes" else ys
    h = torch.stack(xs)
    if o["self-attention"] != "0":
        h = h + self_attention(p, int(o["self-attention"]), h)
    return h, last


def first_states(p, o, h, last):
    layers, states = int(o["decoder-layers"]), []
    if o["start"] in ("bridge", "mean"):
        seen = last[-1][0] if o["start"] == "bridge" else h.mean(0)
        bridged = torch.tanh(seen @ parameter(p, "bridge.W", len(seen), layers * H) +
                             parameter(p, "bridge.b", layers * H)).chunk(layers)
        return [(s, zero_state()[1]) for s in bridged]
    for layer in range(layers):
        if o["start"] == "zero":
            states.append(zero_state())
        else:
            s, c = last[min(layer, len(last) - 1)]
            states.append((s, c if o["encoder-cell"] == "lstm" else zero_state()[1]))
    return states


def attend(p, o, query, h, coverage):
    e = query @ parameter(p, "attention.W_a", H, A) + h @ parameter(p, "attention.U_a", h.shape[1], A)
    if o["coverage"] == "summed":
        e = e + coverage[:, None] * parameter(p, "attention.w_c", A)
    alpha = torch.softmax(torch.tanh(e) @ parameter(p, "attention.v_a", A), 0)
    return alpha @ h, alpha


def first_readout(p, o, y, s, c):
    if o["readout-kind"] == "attentional":
        both = s if c is None else torch.cat([c, s])
        return torch.tanh(both @ parameter(p, "readout.W_c", len(both), o["R"]))
    columns = o["R"] * (2 if o["readout-kind"] == "maxout" else 1)
    t = s @ parameter(p, "readout.U_o", H, columns) + y @ parameter(p, "readout.V_o", E, columns) + \
        parameter(p, "readout.b_o", columns)
    if c is not None:
        t = t + c @ parameter(p, "readout.C_o", len(c), columns)
    return torch.maximum(*t.chunk(2)) if o["readout-kind"] == "maxout" else torch.tanh(t)


def table(p, o, name):
    tied = o["tied"] == "all"
    return parameter(p, "target.E" if tied else name + ".E", V_T if tied or name == "target" else V_S, E)


def logits_of(p, o, t):
    for layer in range(2, int(o["readout-layers"]) + 1):
        t = torch.tanh(t @ parameter(p, f"readout.layer{layer}.W", o["R"], o["R"]) +
                       parameter(p, f"readout.layer{layer}.b", o["R"]))
    W = parameter(p, "output.W", o["R"], V_T) if o["tied"] == "none" else table(p, o, "target").T
    return t @ W + parameter(p, "output.b", V_T)


def step(p, o, y, h, context, now):
    """One word: the first readout, the weights and what comes next."""
    kind, gates = o["decoder-cell"], 4 if o["decoder-cell"] == "lstm" else 3
    c, alpha = context, None
    if o["attend"] == "before":
        c, alpha = attend(p, o, now["s"], h, now["coverage"])
    xw = cell_input(p, o, "decoder.layer1", kind, y)
    if o["attend"] in ("before", "last-state"):
        xw = xw + c @ parameter(p, "decoder.W_c", len(c), gates * H)
    if o["input-feeding"] == "yes":
        xw = xw + now["fed"] @ parameter(p, "decoder.W_feed", o["R"], gates * H)
    states, top = list(now["states"]), None
    for layer in range(len(states)):
        name = f"decoder.layer{layer + 1}"
        share = xw if layer == 0 else cell_input(p, o, name, kind, top)
        states[layer] = cell_step(p, o, name, kind, share, states[layer])
        if layer == 0 and o["attend"] == "between":
            c, alpha = attend(p, o, states[0][0], h, now["coverage"])
            share = cell_input(p, o, "decoder.second", kind, c)
            states[0] = cell_step(p, o, "decoder.second", kind, share, states[0])
        out = states[layer][0]
        top = out + top if layer > 0 and o["residual"] == "yes" else out
    if o["attend"] == "after":
        c, alpha = attend(p, o, top, h, now["coverage"])
    seen = now["s"] if o["readout-state"] == "previous" else top
    t = first_readout(p, o, y, seen, c)
    coverage = now["coverage"] if alpha is None else now["coverage"] + alpha
    return t, alpha, {"s": top, "states": states, "fed": t, "coverage": coverage}


def sentence(p, o, source, previous):
    """Logits of all words, and weights."""
    h, last = encode(p, o, [table(p, o, "source")[w] for w in source])
    context = last[-1][0] if o["attend"] == "last-state" else None
    states = first_states(p, o, h, last)
    now = {"s": states[-1][0], "states": states, "fed": torch.zeros(o["R"], dtype=torch.float64),
           "coverage": torch.zeros(len(h), dtype=torch.float64)}
    logits, weights = [], []
    for word in previous:
        t, alpha, now = step(p, o, table(p, o, "target")[word], h, context, now)
        logits.append(logits_of(p, o, t))
        weights.append(torch.zeros(max(SOURCE)) if alpha is None else F.pad(alpha, (0, max(SOURCE) - len(alpha))))
    return torch.stack(logits), torch.stack(weights)


def model(o, ids):
    def run(p):
        logits, weights = [], []
        for b in range(len(SOURCE)):
            l, w = sentence(p, o, ids["source"][:SOURCE[b], b], ids["previous"][:TARGET[b], b])
            logits.append(F.pad(l, (0, 0, 0, max(TARGET) - TARGET[b])))
            weights.append(F.pad(w, (0, 0, 0, max(TARGET) - TARGET[b])))
        outputs = {"logits": torch.stack(logits, 1)}
        if o["attend"] not in ("last-state", "never"):
            outputs["weights"] = torch.stack(weights, -1)
        return outputs
    return run


def main():
    torch.set_num_threads(1)
    case, rng = Case("seq2seq"), Random(77)
    for number, changes in enumerate(CASES):
        o = {**USUAL, **dict(change.split("=") for change in changes.split())}
        o["R"] = R if o["tied"] == "none" else E
        ids = {"source": rng.integers(max(SOURCE), 3, low=4, high=V_T),
               "previous": rng.integers(max(TARGET), 3, low=4, high=V_T)}
        masks = {"source_mask": mask_of(SOURCE, max(SOURCE)), "target_mask": mask_of(TARGET, max(TARGET))}
        drawn = Drawn(rng)
        model(o, ids)(drawn)
        evaluate(case, rng, model(o, ids), dict(drawn), {**ids, **masks}, prefix=f"{number}/",
                 no_cotangent=("weights",), padded={"logits": masks["target_mask"]})
    case.write()


if __name__ == "__main__":
    main()
