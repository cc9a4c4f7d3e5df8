"""Writes the reference numbers that attune's tests compare against.

What it does
    Runs small LSTMs, GRUs, attention, losses and optimiser steps in PyTorch, and
    writes what went in, what came out and the gradients as small JSON files next to
    this script, one per case. README.md, in the same folder, gives the layout of the
    files and the equations of each case.

What it needs
    Python 3 with PyTorch, without any GPU. The files kept here were made with
    PyTorch 1.13.1 as packaged by Debian 12 (python3-torch).

How to run it
    /usr/bin/python3 tests/golden/make_golden.py

Everything is computed in float64 on one thread from fixed seeds, so that a second
run on the same machine writes the same bytes. Inputs and cotangents are multiples of
1/256 (one of Adam's gradients: 2^-27), and so are the same numbers in float32.

How a case is made
    A case is a function from named tensors, in attune's layout, to named outputs.
    `evaluate` runs it, takes the loss sum(output * cotangent) over all outputs, and
    asks autograd for the gradients. Wherever PyTorch has a module for the job, the
    module and the same function written out with plain operations must agree in every
    output and gradient. The gradients of every case must also agree with a finite
    difference of the loss along a random direction. A failed check stops the script.
"""

import json
import math
import pathlib
import subprocess

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = pathlib.Path(__file__).resolve().parent


# ----------------------------------------------------------------------------------
# Drawing inputs, running a case, writing its file
# ----------------------------------------------------------------------------------


def made_with():
    """The version of PyTorch, as Debian's package names it (torch.__version__ there
    says 1.13.0a0), or as torch itself does elsewhere."""
    try:
        package = subprocess.run(
            ["dpkg-query", "-W", "-f=${Version}", "python3-torch"],
            capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        package = ""
    same = ".".join(package.split(".")[:2]) == ".".join(torch.__version__.split(".")[:2])
    if package and same:
        version = f"{package.split('+')[0]} (Debian python3-torch {package})"
    else:
        version = torch.__version__
    return f"PyTorch {version}, float64, by tests/golden/make_golden.py"


class Random:
    """Fixed random numbers."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape, scale=1.0):
        """Normal numbers, rounded to multiples of 1/256."""
        x = torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale
        return torch.round(x * 256) / 256

    def uniform(self, *shape, low, high):
        """Uniform numbers, rounded to multiples of 1/256."""
        x = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return torch.round((low + (high - low) * x) * 256) / 256

    def integers(self, *shape, low, high):
        """Integers from low up to, not including, high."""
        return torch.randint(low, high, shape, generator=self.generator)


def mask_of(lengths, steps):
    """The mask (steps, len(lengths)): 1 on words, 0 on padding after them."""
    return (torch.arange(steps)[:, None] < torch.tensor(lengths)[None, :]).double()


class Case:
    """The named tensors and numbers of one file."""

    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.numbers = {}

    def add(self, name, value):
        assert name not in self.tensors and name not in self.numbers, name
        if not isinstance(value, torch.Tensor):
            self.numbers[name] = value
            return
        value = value.detach()
        if value.is_floating_point():
            assert value.dtype == torch.float64, name
            assert torch.isfinite(value).all(), name
            value = value + 0.0  # -0 becomes 0
        if value.dim() == 0:
            self.numbers[name] = value.item()
            return
        tensor = {} if value.is_floating_point() else {"dtype": "i32"}
        tensor["shape"] = list(value.shape)
        tensor["data"] = value.reshape(-1).tolist()
        self.tensors[name] = tensor

    def add_all(self, values, prefix=""):
        for name, value in values.items():
            self.add(prefix + name, value)

    def write(self):
        """One tensor per line. Python writes each number with as many digits (17 at
        most) as it takes to read the same float64 back."""
        def lines(values):
            return ",\n".join(f"    {json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
                              for name, value in values.items())
        text = ("{\n"
                f"  \"made_with\": {json.dumps(made_with())},\n"
                f"  \"tensors\": {{\n{lines(self.tensors)}\n  }},\n"
                f"  \"numbers\": {{\n{lines(self.numbers)}\n  }}\n"
                "}\n")
        path = HERE / f"{self.name}.json"
        path.write_text(text, encoding="ascii")
        print(f"{path.name}: {len(self.tensors)} tensors, {len(self.numbers)} numbers, "
              f"{len(text)} bytes")


def evaluate(case, rng, function, variables, constants=None, *, prefix="",
             padded=None, no_cotangent=(), cotangents=None, same_as=None):
    """Adds to `case` one function's inputs, outputs, cotangents and gradients.

    function      takes a dictionary of all inputs, returns a dictionary of outputs
    variables     the inputs and parameters to take gradients for
    constants     the masks and ids
    padded        {output: mask}: the cotangent is zero where the mask is
    no_cotangent  outputs which the loss leaves out
    cotangents    {output: cotangent} given rather than drawn, and not written
    same_as       another such function, which must give the same numbers
    """
    constants = constants or {}

    def run(f, values):
        """The outputs and the loss."""
        outputs = f({**values, **constants})
        return outputs, sum((outputs[n] * g).sum() for n, g in weights.items())

    def run_with_gradients(f):
        leaves = {n: v.clone().requires_grad_() for n, v in variables.items()}
        outputs, loss = run(f, leaves)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        return {n: y.detach() for n, y in outputs.items()}, dict(zip(leaves, gradients))

    weights = dict(cotangents or {})
    drawn = {}
    for name, y in function({**variables, **constants}).items():
        if name in weights or name in no_cotangent:
            continue
        drawn[name] = rng.normal(*y.shape)
        if padded and name in padded:
            drawn[name] = drawn[name] * padded[name][..., None]
    weights.update(drawn)

    outputs, gradients = run_with_gradients(function)

    # The same from another way of computing it.
    if same_as is not None:
        other_outputs, other_gradients = run_with_gradients(same_as)
        for mine, theirs in ((outputs, other_outputs), (gradients, other_gradients)):
            assert mine.keys() == theirs.keys()
            for name in mine:
                torch.testing.assert_close(mine[name], theirs[name], rtol=1e-11, atol=1e-12)

    # The slope of the loss along a random direction, from the gradients and from two
    # values of the loss. (A generator of its own: the check draws none of the numbers.)
    check = torch.Generator().manual_seed(1)
    direction = {n: torch.randn(v.shape, generator=check, dtype=torch.float64)
                 for n, v in variables.items()}
    step = 1e-6
    ahead = run(function, {n: v + step * direction[n] for n, v in variables.items()})[1]
    behind = run(function, {n: v - step * direction[n] for n, v in variables.items()})[1]
    slope = sum((gradients[n] * direction[n]).sum() for n in variables)
    torch.testing.assert_close((ahead - behind) / (2 * step), slope, rtol=1e-6, atol=1e-6)

    case.add_all(variables, prefix)
    case.add_all(constants, prefix)
    case.add_all(outputs, prefix)
    case.add_all({"g_" + n: g for n, g in drawn.items()}, prefix)
    case.add_all({"d_" + n: d for n, d in gradients.items()}, prefix)


# ----------------------------------------------------------------------------------
# Recurrent layers
# ----------------------------------------------------------------------------------


def torch_weights(p, name, suffix=""):
    """A layer's parameters in torch's layout: weights transposed, and two biases, of
    which the second is zero but for the GRU's b_hn."""
    b = p[name + "b"]
    b_h = torch.zeros_like(b)
    if name + "b_hn" in p:
        hidden = p[name + "b_hn"].shape[0]
        b_h = torch.cat([b_h[:2 * hidden], p[name + "b_hn"]])
    return {"weight_ih_l0" + suffix: p[name + "W_x"].t(),
            "weight_hh_l0" + suffix: p[name + "W_h"].t(),
            "bias_ih_l0" + suffix: b,
            "bias_hh_l0" + suffix: b_h}


def run_module(kind, x, mask, weights, state=None):
    """nn.LSTM or nn.GRU, with these weights, over the packed sequences of x (T,B,D).
    Returns the outputs, zero at padding, and the last state(s) as torch gives them."""
    bidirectional = "weight_ih_l0_reverse" in weights
    module = kind(x.shape[2], weights["weight_hh_l0"].shape[1],
                  bidirectional=bidirectional).double()
    for name, weight in weights.items():
        delattr(module, name)  # a tensor in a parameter's place, which lets
        setattr(module, name, weight)  # gradients through to what it was made of
    lengths = mask.sum(0).long()
    ordered = bool((lengths[:-1] >= lengths[1:]).all())
    packed = pack_padded_sequence(x, lengths, enforce_sorted=ordered)
    h, last = module(packed, state)
    return pad_packed_sequence(h, total_length=x.shape[0])[0], last


def reverse_sentences(x, mask):
    """Each sentence of x (T,B,D) reversed within its own length, padding left alone."""
    t = torch.arange(x.shape[0])[:, None]
    lengths = mask.sum(0).long()[None, :]
    source = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, source[:, :, None].expand_as(x))


def over_time(step, x, mask, state, reverse=False):
    """A recurrence written out. step(x_t, state) -> state, where state is a tuple whose
    first entry is the output; padding keeps the state and puts out zero."""
    outputs = [None] * x.shape[0]
    times = range(x.shape[0])
    for t in reversed(times) if reverse else times:
        m = mask[t][:, None]
        state = tuple(m * new + (1 - m) * old for new, old in zip(step(x[t], state), state))
        outputs[t] = m * state[0]
    return torch.stack(outputs), state


def lstm_step(p, name=""):
    def step(x, state):
        h, c = state
        i, f, g, o = (x @ p[name + "W_x"] + h @ p[name + "W_h"] + p[name + "b"]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    return step


def gru_step(p, name=""):
    """Reset after: r multiplies what comes out of W_hn, and its bias."""
    def step(x, state):
        h, = state
        x_r, x_z, x_n = (x @ p[name + "W_x"] + p[name + "b"]).chunk(3, 1)
        h_r, h_z, h_n = (h @ p[name + "W_h"]).chunk(3, 1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * (h_n + p[name + "b_hn"]))
        return ((1 - z) * n + z * h,)
    return step


def gru_reset_before_step(p):
    """Reset before: r multiplies what goes into W_hn."""
    def step(x, state):
        h, = state
        W_hr, W_hz, W_hn = p["W_h"].chunk(3, 1)
        x_r, x_z, x_n = (x @ p["W_x"] + p["b"]).chunk(3, 1)
        r, z = torch.sigmoid(x_r + h @ W_hr), torch.sigmoid(x_z + h @ W_hz)
        n = torch.tanh(x_n + (r * h) @ W_hn)
        return ((1 - z) * n + z * h,)
    return step


T, B, D, H = 5, 3, 7, 2
LENGTHS = [5, 3, 1]


def lstm_parameters(rng, inputs, hidden, name=""):
    return {name + "W_x": rng.normal(inputs, 4 * hidden, scale=0.5),
            name + "W_h": rng.normal(hidden, 4 * hidden, scale=0.8),
            name + "b": rng.normal(4 * hidden, scale=0.5)}


def gru_parameters(rng, inputs, hidden, name=""):
    return {name + "W_x": rng.normal(inputs, 3 * hidden, scale=0.5),
            name + "W_h": rng.normal(hidden, 3 * hidden, scale=0.8),
            name + "b": rng.normal(3 * hidden, scale=0.5),
            name + "b_hn": rng.normal(hidden, scale=0.5)}


def make_lstm(reverse):
    case = Case("lstm_reverse" if reverse else "lstm")
    rng = Random(101)  # both directions have the same inputs
    mask = mask_of(LENGTHS, T)
    variables = {"x": rng.normal(T, B, D), **lstm_parameters(rng, D, H),
                 "h0": rng.normal(B, H), "c0": rng.normal(B, H)}

    def by_module(p):
        x = reverse_sentences(p["x"], p["mask"]) if reverse else p["x"]
        h, (h_last, c_last) = run_module(nn.LSTM, x, p["mask"], torch_weights(p, ""),
                                         (p["h0"][None], p["c0"][None]))
        h = reverse_sentences(h, p["mask"]) if reverse else h
        return {"h": h, "h_last": h_last[0], "c_last": c_last[0]}

    def written_out(p):
        h, (h_last, c_last) = over_time(lstm_step(p), p["x"], p["mask"],
                                        (p["h0"], p["c0"]), reverse)
        return {"h": h, "h_last": h_last, "c_last": c_last}

    evaluate(case, rng, by_module, variables, {"mask": mask}, padded={"h": mask},
             same_as=written_out)
    case.write()


def make_gru(reverse):
    case = Case("gru_reverse" if reverse else "gru")
    rng = Random(102)
    mask = mask_of(LENGTHS, T)
    variables = {"x": rng.normal(T, B, D), **gru_parameters(rng, D, H),
                 "h0": rng.normal(B, H)}

    def by_module(p):
        x = reverse_sentences(p["x"], p["mask"]) if reverse else p["x"]
        h, h_last = run_module(nn.GRU, x, p["mask"], torch_weights(p, ""), p["h0"][None])
        h = reverse_sentences(h, p["mask"]) if reverse else h
        return {"h": h, "h_last": h_last[0]}

    def written_out(p):
        h, (h_last,) = over_time(gru_step(p), p["x"], p["mask"], (p["h0"],), reverse)
        return {"h": h, "h_last": h_last}

    evaluate(case, rng, by_module, variables, {"mask": mask}, padded={"h": mask},
             same_as=written_out)
    case.write()


def make_gru_reset_before():
    case = Case("gru_reset_before")
    rng = Random(103)
    mask = mask_of(LENGTHS, T)
    variables = {"x": rng.normal(T, B, D), **gru_parameters(rng, D, H),
                 "h0": rng.normal(B, H)}
    del variables["b_hn"]  # this form has no such bias

    def written_out(p):
        h, (h_last,) = over_time(gru_reset_before_step(p), p["x"], p["mask"], (p["h0"],))
        return {"h": h, "h_last": h_last}

    evaluate(case, rng, written_out, variables, {"mask": mask}, padded={"h": mask})
    case.write()


def make_bidirectional_lstm():
    case = Case("bidirectional_lstm")
    rng = Random(104)
    mask = mask_of(LENGTHS, T)
    variables = {"x": rng.normal(T, B, D), **lstm_parameters(rng, D, H, "forward."),
                 **lstm_parameters(rng, D, H, "backward.")}

    def by_module(p):
        weights = {**torch_weights(p, "forward."), **torch_weights(p, "backward.", "_reverse")}
        h, (h_last, c_last) = run_module(nn.LSTM, p["x"], p["mask"], weights)
        return {"h": h, "forward.h_last": h_last[0], "forward.c_last": c_last[0],
                "backward.h_last": h_last[1], "backward.c_last": c_last[1]}

    def written_out(p):
        zero = torch.zeros(B, H, dtype=torch.float64)
        h_f, last_f = over_time(lstm_step(p, "forward."), p["x"], p["mask"], (zero, zero))
        h_b, last_b = over_time(lstm_step(p, "backward."), p["x"], p["mask"], (zero, zero),
                                reverse=True)
        return {"h": torch.cat([h_f, h_b], 2), "forward.h_last": last_f[0],
                "forward.c_last": last_f[1], "backward.h_last": last_b[0],
                "backward.c_last": last_b[1]}

    evaluate(case, rng, by_module, variables, {"mask": mask}, padded={"h": mask},
             same_as=written_out)
    case.write()


def bidirectional_gru_by_module(p, x, mask):
    """The outputs [forward; backward] and the last state of each direction."""
    weights = {**torch_weights(p, "forward."), **torch_weights(p, "backward.", "_reverse")}
    h, h_last = run_module(nn.GRU, x, mask, weights)
    return h, h_last[0], h_last[1]


def bidirectional_gru_written_out(p, x, mask):
    hidden = p["forward.W_h"].shape[0]
    zero = torch.zeros(x.shape[1], hidden, dtype=torch.float64)
    h_f, (last_f,) = over_time(gru_step(p, "forward."), x, mask, (zero,))
    h_b, (last_b,) = over_time(gru_step(p, "backward."), x, mask, (zero,), reverse=True)
    return torch.cat([h_f, h_b], 2), last_f, last_b


def make_bidirectional_gru():
    case = Case("bidirectional_gru")
    rng = Random(105)
    mask = mask_of(LENGTHS, T)
    variables = {"x": rng.normal(T, B, D), **gru_parameters(rng, D, H, "forward."),
                 **gru_parameters(rng, D, H, "backward.")}

    def by(layer):
        def function(p):
            h, last_f, last_b = layer(p, p["x"], p["mask"])
            return {"h": h, "forward.h_last": last_f, "backward.h_last": last_b}
        return function

    evaluate(case, rng, by(bidirectional_gru_by_module), variables, {"mask": mask},
             padded={"h": mask}, same_as=by(bidirectional_gru_written_out))
    case.write()


def make_stacked(kind, name, seed):
    """num_layers=2, from a state of its own for each layer."""
    case = Case(name)
    rng = Random(seed)
    mask = mask_of(LENGTHS, T)
    lstm = kind is nn.LSTM
    parameters = lstm_parameters if lstm else gru_parameters
    letters = ("h", "c") if lstm else ("h",)
    variables = {"x": rng.normal(T, B, D), **parameters(rng, D, H, "layer1."),
                 **parameters(rng, H, H, "layer2."),
                 **{f"layer{i}.{n}0": rng.normal(B, H) for i in (1, 2) for n in letters}}

    def by_module(p):
        module = kind(D, H, num_layers=2).double()
        for i in range(2):
            for weight, value in torch_weights(p, f"layer{i + 1}.").items():
                delattr(module, weight.replace("l0", f"l{i}"))
                setattr(module, weight.replace("l0", f"l{i}"), value)
        states = tuple(torch.stack([p[f"layer{i}.{n}0"] for i in (1, 2)]) for n in letters)
        packed = pack_padded_sequence(p["x"], p["mask"].sum(0).long())
        h, last = module(packed, states if lstm else states[0])
        last = last if lstm else (last,)
        return {"h": pad_packed_sequence(h, total_length=T)[0],
                **{f"layer{i + 1}.{n}_last": last[k][i]
                   for i in range(2) for k, n in enumerate(letters)}}

    def written_out(p):
        h, outputs = p["x"], {}
        for i in (1, 2):
            step = (lstm_step if lstm else gru_step)(p, f"layer{i}.")
            h, last = over_time(step, h, p["mask"],
                                tuple(p[f"layer{i}.{n}0"] for n in letters))
            outputs.update({f"layer{i}.{n}_last": s for n, s in zip(letters, last)})
        return {"h": h, **outputs}

    evaluate(case, rng, by_module, variables, {"mask": mask}, padded={"h": mask},
             same_as=written_out)
    case.write()


# ----------------------------------------------------------------------------------
# Attention, losses, Adam
# ----------------------------------------------------------------------------------


def masked_softmax(e, mask):
    """The softmax over axis 0 of those e (S,B) whose mask is 1; exactly 0 elsewhere."""
    return torch.softmax(e.masked_fill(mask == 0, -math.inf), 0)


def attention_energies(p, query, memory):
    """e (S,B) = v_a . tanh(query W_a + memory U_a)"""
    return torch.tanh((query @ p["W_a"])[None] + memory @ p["U_a"]) @ p["v_a"]


def make_additive_attention():
    case = Case("additive_attention")
    rng = Random(106)
    S, B, Q, D, A = 5, 3, 4, 6, 7
    variables = {"query": rng.normal(B, Q), "memory": rng.normal(S, B, D),
                 "W_a": rng.normal(Q, A, scale=0.5), "U_a": rng.normal(D, A, scale=0.5),
                 "v_a": rng.normal(A)}
    constants = {"mask": mask_of([3, 5, 1], S)}

    def attention(p):
        e = attention_energies(p, p["query"], p["memory"])
        weights = masked_softmax(e, p["mask"])
        context = (weights[:, :, None] * p["memory"]).sum(0)
        return {"e": e * p["mask"], "weights": weights, "context": context}

    def one_sentence_at_a_time(p):
        """No mask at all: each sentence is cut to its length."""
        e, weights, context = [], [], []
        for b in range(B):
            length = int(p["mask"][:, b].sum())
            memory = p["memory"][:length, b]
            energy = torch.tanh(p["query"][b] @ p["W_a"] + memory @ p["U_a"]) @ p["v_a"]
            weight = torch.softmax(energy, 0)
            e.append(F.pad(energy, (0, S - length)))
            weights.append(F.pad(weight, (0, S - length)))
            context.append(weight @ memory)
        return {"e": torch.stack(e, 1), "weights": torch.stack(weights, 1),
                "context": torch.stack(context)}

    evaluate(case, rng, attention, variables, constants, no_cotangent=("e",),
             same_as=one_sentence_at_a_time)
    case.write()


SMOOTHING = 0.1


def token_losses(logits, targets, mask):
    """-log softmax(logits)[target] (T,B), zero at padding."""
    losses = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1),
                             reduction="none")
    return losses.reshape(mask.shape) * mask


def make_cross_entropy():
    case = Case("cross_entropy")
    rng = Random(107)
    T, B, V = 4, 3, 6
    constants = {"targets": rng.integers(T, B, low=0, high=V), "mask": mask_of([4, 2, 1], T)}
    logits = rng.normal(T, B, V, scale=2.0)

    # Large logits: most rows spread over the whole of +-1000; in some the target is far
    # below the largest; in two all are within a few units of 1000 or of -1000.
    large = rng.uniform(T, B, V, low=-1000, high=1000)
    large[0, 0, 0], large[0, 0, V - 1] = 1000, -1000
    large[1, 0] = 1000 - rng.uniform(V, low=0, high=3)
    large[2, 0] = -1000 + rng.uniform(V, low=0, high=3)
    large[0, 1, constants["targets"][0, 1]] = large[0, 1].max() + 1  # the target wins
    large[1, 1, constants["targets"][1, 1]] = -1000  # the target loses

    def mean(p):
        words = p["mask"] == 1
        return {"loss": F.cross_entropy(p["logits"][words], p["targets"][words])}

    def mean_of_tokens(p):
        return {"loss": token_losses(p["logits"], p["targets"], p["mask"]).sum()
                / p["mask"].sum()}

    def total(p):
        words = p["mask"] == 1
        return {"loss": F.cross_entropy(p["logits"][words], p["targets"][words],
                                        reduction="sum")}

    def total_of_tokens(p):
        return {"loss": token_losses(p["logits"], p["targets"], p["mask"]).sum()}

    def smoothed(reduction):
        def loss(p):
            words = p["mask"] == 1
            return {"loss": F.cross_entropy(p["logits"][words], p["targets"][words],
                                            reduction=reduction, label_smoothing=SMOOTHING)}
        return loss

    def smoothed_tokens(scale):
        def loss(p):
            even = -torch.log_softmax(p["logits"], -1).mean(-1) * p["mask"]
            target = token_losses(p["logits"], p["targets"], p["mask"])
            return {"loss": ((1 - SMOOTHING) * target + SMOOTHING * even).sum() * scale}
        return loss

    for prefix, values in (("", logits), ("large_", large)):
        for name, function, same in (("mean/", mean, mean_of_tokens),
                                     ("sum/", total, total_of_tokens)):
            evaluate(case, rng, function, {"logits": values}, constants,
                     prefix=prefix + name, same_as=same)
            case.add(prefix + name + "token_loss", token_losses(values, **constants))
    for name, scale in (("mean", 1 / constants["mask"].sum()), ("sum", 1)):
        prefix = f"smoothed_{name}/"
        evaluate(case, rng, smoothed(name), {"logits": logits}, constants, prefix=prefix,
                 same_as=smoothed_tokens(scale))
        case.add(prefix + "smoothing", SMOOTHING)
    case.write()


def make_adam():
    case = Case("adam")
    rng = Random(108)
    lr, beta1, beta2, eps, max_norm, steps = 1e-2, 0.9, 0.999, 1e-8, 1.0, 3
    start = {"W": rng.normal(3, 4), "b": rng.normal(5)}
    # The second step's gradients have a norm below max_norm, so that clipping leaves
    # them alone. One gradient is always zero, and one as small as eps.
    gradients = [{n: rng.normal(*v.shape, scale=scale) for n, v in start.items()}
                 for scale in (1.0, 0.125, 3.0)]
    for gradient in gradients:
        gradient["W"][1, 2] = 0.0
        gradient["b"][3] = 2.0 ** -27

    case.add_all({"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "steps": steps,
                  "max_norm": max_norm})
    case.add_all(start)
    for i, gradient in enumerate(gradients, 1):
        case.add_all({f"step{i}/g_{n}": g for n, g in gradient.items()})

    for prefix in ("", "clip/"):
        parameters = {n: v.clone().requires_grad_() for n, v in start.items()}
        written_out = {n: v.clone() for n, v in start.items()}
        m = {n: torch.zeros_like(v) for n, v in start.items()}
        v = {n: torch.zeros_like(v) for n, v in start.items()}
        adam = torch.optim.Adam(parameters.values(), lr=lr, betas=(beta1, beta2), eps=eps)
        for i, gradient in enumerate(gradients, 1):
            for name, parameter in parameters.items():
                parameter.grad = gradient[name].clone()
            if prefix:
                norm = nn.utils.clip_grad_norm_(parameters.values(), max_norm)
                assert (norm < max_norm) == (i == 2)
                case.add(f"{prefix}step{i}/norm", norm)
                case.add_all({f"{prefix}step{i}/g_{n}": p.grad for n, p in parameters.items()})
            adam.step()
            case.add_all({f"{prefix}step{i}/{n}": p for n, p in parameters.items()})

            for n, p in parameters.items():
                m[n] = beta1 * m[n] + (1 - beta1) * p.grad
                v[n] = beta2 * v[n] + (1 - beta2) * p.grad ** 2
                m_hat, v_hat = m[n] / (1 - beta1 ** i), v[n] / (1 - beta2 ** i)
                written_out[n] = written_out[n] - lr * m_hat / (v_hat.sqrt() + eps)
                torch.testing.assert_close(p.detach(), written_out[n], rtol=1e-11, atol=1e-13)
    case.write()


def optimiser_start(rng):
    """Two parameters, and the gradients of three steps."""
    start = {"W": rng.normal(3, 4), "b": rng.normal(5)}
    gradients = [{n: rng.normal(*v.shape) for n, v in start.items()} for _ in range(3)]
    return start, gradients


def three_steps(case, prefix, optimiser, parameters, gradients, update):
    """Takes the steps, and writes the parameters after each. update(name, i, w, g) -> w
    is the same written out."""
    written_out = {n: p.detach().clone() for n, p in parameters.items()}
    for i, gradient in enumerate(gradients, 1):
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        optimiser.step()
        case.add_all({f"{prefix}step{i}/{n}": p for n, p in parameters.items()})
        for n, p in parameters.items():
            written_out[n] = update(n, i, written_out[n], gradient[n])
            torch.testing.assert_close(p.detach(), written_out[n], rtol=1e-11, atol=1e-13)


def make_adamw():
    case = Case("adamw")
    rng = Random(141)
    lr, beta1, beta2, eps, decay = 1e-2, 0.9, 0.999, 1e-8, 0.5
    start, gradients = optimiser_start(rng)
    case.add_all({"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps,
                  "weight_decay": decay, "steps": len(gradients)})
    case.add_all(start)
    for i, gradient in enumerate(gradients, 1):
        case.add_all({f"step{i}/g_{n}": g for n, g in gradient.items()})

    for prefix, decays in (("all/", {"W": decay, "b": decay}),
                           ("matrices/", {"W": decay, "b": 0.0})):
        parameters = {n: v.clone().requires_grad_() for n, v in start.items()}
        groups = [{"params": [p], "weight_decay": decays[n]} for n, p in parameters.items()]
        adamw = torch.optim.AdamW(groups, lr=lr, betas=(beta1, beta2), eps=eps)
        m = {n: torch.zeros_like(v) for n, v in start.items()}
        v = {n: torch.zeros_like(v) for n, v in start.items()}

        def update(n, i, w, g):
            m[n] = beta1 * m[n] + (1 - beta1) * g
            v[n] = beta2 * v[n] + (1 - beta2) * g ** 2
            m_hat, v_hat = m[n] / (1 - beta1 ** i), v[n] / (1 - beta2 ** i)
            return w - lr * (m_hat / (v_hat.sqrt() + eps) + decays[n] * w)

        three_steps(case, prefix, adamw, parameters, gradients, update)
    case.write()


def make_sgd():
    case = Case("sgd")
    rng = Random(142)
    lr = 0.125
    start, gradients = optimiser_start(rng)
    case.add_all({"lr": lr, "steps": len(gradients)})
    case.add_all(start)
    for i, gradient in enumerate(gradients, 1):
        case.add_all({f"step{i}/g_{n}": g for n, g in gradient.items()})

    for prefix, momentum, nesterov, decay in (("plain/", 0.0, False, 0.0),
                                              ("decay/", 0.0, False, 0.25),
                                              ("momentum/", 0.9, False, 0.0),
                                              ("momentum_decay/", 0.9, False, 0.25),
                                              ("nesterov/", 0.9, True, 0.0),
                                              ("nesterov_decay/", 0.9, True, 0.25)):
        case.add_all({"momentum": momentum, "weight_decay": decay}, prefix)
        parameters = {n: v.clone().requires_grad_() for n, v in start.items()}
        sgd = torch.optim.SGD(parameters.values(), lr=lr, momentum=momentum,
                              nesterov=nesterov, weight_decay=decay)
        v = {n: torch.zeros_like(v) for n, v in start.items()}

        def update(n, i, w, g):
            d = g + decay * w
            v[n] = momentum * v[n] + d
            return w - lr * (d + momentum * v[n] if nesterov else v[n])

        three_steps(case, prefix, sgd, parameters, gradients, update)
    case.write()


# ----------------------------------------------------------------------------------
# Single operations
# ----------------------------------------------------------------------------------


def maxout(x):
    """max(first half, second half) of the last axis, elementwise"""
    first, second = x.chunk(2, -1)
    return torch.maximum(first, second)


def make_ops():
    case = Case("ops")
    rng = Random(109)

    def one(name, function, variables, constants=None, same_as=None):
        evaluate(case, rng, lambda p: {"y": function(p)}, variables, constants,
                 prefix=name + "/", same_as=same_as and (lambda p: {"y": same_as(p)}))

    x = rng.normal(2, 3, 4, scale=2.0)
    for axis in range(3):
        one(f"softmax_axis{axis}", lambda p: torch.softmax(p["x"], axis), {"x": x},
            same_as=lambda p: p["x"].exp() / p["x"].exp().sum(axis, keepdim=True))
    for axis in range(3):
        one(f"log_softmax_axis{axis}", lambda p: torch.log_softmax(p["x"], axis), {"x": x},
            same_as=lambda p: p["x"] - p["x"].exp().sum(axis, keepdim=True).log())

    # What stands at padding is far larger than what stands on words.
    scores, mask = rng.normal(5, 3, scale=2.0), mask_of([3, 5, 1], 5)
    scores[4, 0], scores[1, 2] = 1000.0, -1000.0
    one("masked_softmax", lambda p: masked_softmax(p["x"], p["mask"]), {"x": scores},
        {"mask": mask})

    wide = rng.normal(4, 5, scale=3.0)
    wide[0] = torch.tensor([-100.0, -30.0, 0.0, 30.0, 100.0])
    # Not F.softplus, which from x = 20 on puts out x itself.
    one("softplus", lambda p: torch.logaddexp(p["x"], torch.zeros_like(p["x"])), {"x": wide},
        same_as=lambda p: -F.logsigmoid(-p["x"]))
    one("sigmoid", lambda p: torch.sigmoid(p["x"]), {"x": wide})
    one("tanh", lambda p: torch.tanh(p["x"]), {"x": wide})

    for axis in range(3):
        one(f"sum_axis{axis}", lambda p: p["x"].sum(axis), {"x": x})
        one(f"mean_axis{axis}", lambda p: p["x"].mean(axis), {"x": x})
    one("sum_all", lambda p: p["x"].sum(), {"x": x})
    one("mean_all", lambda p: p["x"].mean(), {"x": x})

    one("maxout", lambda p: maxout(p["x"]), {"x": rng.normal(2, 3, 8)},
        same_as=lambda p: torch.stack(p["x"].chunk(2, -1)).max(0).values)

    # Word 3 is never looked up, word 1 four times.
    ids = torch.tensor([[1, 4, 1], [0, 1, 5], [2, 2, 4], [1, 5, 0], [5, 4, 4]])
    one("embedding", lambda p: F.embedding(p["ids"], p["table"]),
        {"table": rng.normal(6, 4)}, {"ids": ids}, same_as=lambda p: p["table"][p["ids"]])
    case.write()


def make_ops2():
    case = Case("ops2")
    rng = Random(113)

    def one(name, function, variables, constants=None, same_as=None):
        evaluate(case, rng, lambda p: {"y": function(p)}, variables, constants,
                 prefix=name + "/", same_as=same_as and (lambda p: {"y": same_as(p)}))

    x = rng.normal(2, 3, 4, scale=2.0)
    x[x.abs() < 0.125] = 0.25  # the checks by differences keep off kinks
    one("abs", lambda p: p["x"].abs(), {"x": x})
    one("square", lambda p: p["x"].square(), {"x": x})
    one("power_3", lambda p: p["x"] ** 3, {"x": x})
    one("power_minus_2", lambda p: p["x"] ** -2.0, {"x": x})
    positive = rng.uniform(2, 3, 4, low=0.125, high=100.0)
    one("sqrt", lambda p: p["x"].sqrt(), {"x": positive})
    one("power_2.5", lambda p: p["x"] ** 2.5, {"x": positive})
    for axis in range(3):
        one(f"max_axis{axis}", lambda p: p["x"].max(axis).values, {"x": x})
        one(f"norm_axis{axis}", lambda p: torch.linalg.vector_norm(p["x"], dim=axis), {"x": x})
        one(f"log_sum_exp_axis{axis}", lambda p: torch.logsumexp(p["x"] * 50, axis), {"x": x})

    # Broadcasting: the two differ by at least 1/8.
    a, b = rng.normal(2, 1, 4), rng.normal(3, 1)
    b = torch.where(((a - b).abs() < 0.125).any(0).any(1, keepdim=True), b + 0.5, b)
    one("minimum", lambda p: torch.minimum(p["a"], p["b"]), {"a": a, "b": b})
    one("where", lambda p: torch.where(p["mask"] != 0, p["a"], p["b"]), {"a": a, "b": b},
        {"mask": torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]])})

    one("permute", lambda p: p["x"].permute(2, 0, 1), {"x": x})
    one("transpose", lambda p: p["x"].transpose(0, 2), {"x": x})
    one("batched_matmul", lambda p: torch.bmm(p["a"], p["b"]),
        {"a": rng.normal(3, 2, 4), "b": rng.normal(3, 4, 5)},
        same_as=lambda p: torch.einsum("nmk,nkp->nmp", p["a"], p["b"]))

    rng.normal(3, 4), rng.normal(5, 3, 4)  # not used: numbers that follow stay what they were
    rows = rng.normal(2, 3, 5, scale=4.0)
    gain, bias = rng.normal(5), rng.normal(5)
    for name, epsilon in (("layer_norm", 1e-5), ("layer_norm_large_epsilon", 0.5)):
        one(name, lambda p: F.layer_norm(p["x"], (5,), p["gain"], p["bias"], epsilon),
            {"x": rows, "gain": gain, "bias": bias},
            same_as=lambda p: p["gain"] * (p["x"] - p["x"].mean(-1, keepdim=True))
            / (p["x"].var(-1, unbiased=False, keepdim=True) + epsilon).sqrt() + p["bias"])

    # PyTorch has none: the paper's algorithm 1, by sorting.
    def sparsemax(z):
        ordered = z.sort(-1, descending=True).values
        k = torch.arange(1, z.shape[-1] + 1)
        size = (1 + k * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        threshold = (ordered.cumsum(-1).gather(-1, size - 1) - 1) / size
        return (z - threshold).clamp(min=0)
    one("sparsemax", lambda p: sparsemax(p["x"]), {"x": rng.normal(4, 7)})
    case.write()


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    make_lstm(reverse=False)
    make_lstm(reverse=True)
    make_gru(reverse=False)
    make_gru(reverse=True)
    make_gru_reset_before()
    make_bidirectional_lstm()
    make_bidirectional_gru()
    make_additive_attention()
    make_cross_entropy()
    make_adam()
    make_adamw()
    make_sgd()
    make_stacked(nn.LSTM, "stacked_lstm", 143)
    make_stacked(nn.GRU, "stacked_gru", 144)
    make_ops()
    make_ops2()


if __name__ == "__main__":
    main()
