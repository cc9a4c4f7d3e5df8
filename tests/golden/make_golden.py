"""Writes the reference numbers that attune's tests compare against.

    /usr/bin/python3 tests/golden/make_golden.py

Runs small LSTMs, GRUs, attention, losses and optimiser steps in PyTorch, and writes
inputs, outputs and gradients as JSON files next to this script, one per case. README.md
in the same folder describes the layout of the files and the equations of each case.

Needs Python 3 with PyTorch, without GPU. The files in this folder were written with
PyTorch 1.13.1 as packaged by Debian 12 (python3-torch).

Everything is computed in float64 on one thread from fixed seeds, so that a second
run on the same machine writes the same bytes. Inputs and cotangents are multiples of
1/256 (one of Adam's gradients: 2^-27), and therefore exact in float32.

A case is a function from named tensors, in attune's layout, to named outputs.
`evaluate` runs it, computes the loss sum(output * cotangent) over all outputs, and
its gradients by autograd. If PyTorch has a module for the function, the module and
an implementation with elementary operations must agree in every output and gradient.
The gradients of every case must also agree with a finite difference of the loss along
a random direction. A failed check stops the script.
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
# Draw inputs, run a case, write its file
# ----------------------------------------------------------------------------------


def made_with():
    """The version of PyTorch: of Debian's package (its torch.__version__ is 1.13.0a0), or
    torch.__version__."""
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
    """Random numbers of a fixed seed."""

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
        """Integers in [low, high)."""
        return torch.randint(low, high, shape, generator=self.generator)


def mask_of(lengths, steps):
    """The mask (steps, len(lengths)): 1 on steps, 0 on the padding after them."""
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
        """Writes one tensor per line. Python writes each number with the digits (at most 17)
        that an exact round trip of a float64 needs."""
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
    """Adds to `case` the inputs, outputs, cotangents and gradients of a function.

    function      takes a dictionary of all inputs, returns a dictionary of outputs
    variables     inputs and parameters whose gradients are computed
    constants     masks and ids
    padded        {output: mask}: the cotangent is zero where the mask is zero
    no_cotangent  outputs that the loss does not contain
    cotangents    {output: cotangent}, used instead of random ones, and not written
    same_as       another implementation of the function, which must give the same numbers
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

    # The other implementation gives the same numbers.
    if same_as is not None:
        other_outputs, other_gradients = run_with_gradients(same_as)
        for mine, theirs in ((outputs, other_outputs), (gradients, other_gradients)):
            assert mine.keys() == theirs.keys()
            for name in mine:
                torch.testing.assert_close(mine[name], theirs[name], rtol=1e-11, atol=1e-12)

    # The slope of the loss along a random direction, from the gradients and from two
    # values of the loss. The check uses a separate generator, so it does not change the case.
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
    """A layer's parameters in PyTorch's layout: weights transposed, and two biases. The
    second bias is zero except for the GRU's b_hn."""
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
    """Runs nn.LSTM or nn.GRU with these weights over the packed sequences of x (T,B,D).
    Returns the outputs, zero at padding, and the last state(s) in PyTorch's layout."""
    bidirectional = "weight_ih_l0_reverse" in weights
    module = kind(x.shape[2], weights["weight_hh_l0"].shape[1],
                  bidirectional=bidirectional).double()
    for name, weight in weights.items():
        delattr(module, name)  # replaces the parameter by a tensor
        setattr(module, name, weight)  # with history, so that gradients reach its inputs
    lengths = mask.sum(0).long()
    ordered = bool((lengths[:-1] >= lengths[1:]).all())
    packed = pack_padded_sequence(x, lengths, enforce_sorted=ordered)
    h, last = module(packed, state)
    return pad_packed_sequence(h, total_length=x.shape[0])[0], last


def over_time(step, x, mask, state, reverse=False):
    """A recurrence as a loop. step(x_t, state) -> state; the first entry of the tuple state
    is the output. At padding, the state does not change and the output is zero."""
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
    """Reset after: r multiplies h W_hn + b_hn."""
    def step(x, state):
        h, = state
        x_r, x_z, x_n = (x @ p[name + "W_x"] + p[name + "b"]).chunk(3, 1)
        h_r, h_z, h_n = (h @ p[name + "W_h"]).chunk(3, 1)
        r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + r * (h_n + p[name + "b_hn"]))
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


def make_bidirectional(kind, name, seed):
    case = Case(name)
    rng = Random(seed)
    mask = mask_of(LENGTHS, T)
    lstm = kind is nn.LSTM
    parameters = lstm_parameters if lstm else gru_parameters
    letters = ("h", "c") if lstm else ("h",)
    places = ("forward.", "backward.")
    variables = {"x": rng.normal(T, B, D), **parameters(rng, D, H, places[0]),
                 **parameters(rng, D, H, places[1])}

    def by_module(p):
        weights = {**torch_weights(p, places[0]), **torch_weights(p, places[1], "_reverse")}
        h, last = run_module(kind, p["x"], p["mask"], weights)
        last = last if lstm else (last,)
        return {"h": h, **{f"{place}{n}_last": last[k][i] for i, place in enumerate(places)
                           for k, n in enumerate(letters)}}

    def written_out(p):
        zero = (torch.zeros(B, H, dtype=torch.float64),) * len(letters)
        both, outputs = [], {}
        for place in places:
            step = (lstm_step if lstm else gru_step)(p, place)
            h, last = over_time(step, p["x"], p["mask"], zero, reverse=place == "backward.")
            both.append(h)
            outputs.update({f"{place}{n}_last": s for n, s in zip(letters, last)})
        return {"h": torch.cat(both, 2), **outputs}

    evaluate(case, rng, by_module, variables, {"mask": mask}, padded={"h": mask},
             same_as=written_out)
    case.write()


def make_stacked(kind, name, seed):
    """num_layers=2, with an initial state for each layer."""
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


def make_adam():
    case = Case("adam")
    rng = Random(108)
    lr, beta1, beta2, eps, max_norm, steps = 1e-2, 0.9, 0.999, 1e-8, 1.0, 3
    start = {"W": rng.normal(3, 4), "b": rng.normal(5)}
    # The second step's gradients have a norm below max_norm, so that clipping does not
    # change them. One gradient is always zero, and one is about eps.
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
        adam = torch.optim.Adam(parameters.values(), lr=lr, betas=(beta1, beta2), eps=eps)

        def clip(i):
            norm = nn.utils.clip_grad_norm_(parameters.values(), max_norm)
            assert (norm < max_norm) == (i == 2)
            case.add(f"{prefix}step{i}/norm", norm)
            case.add_all({f"{prefix}step{i}/g_{n}": p.grad for n, p in parameters.items()})

        update = adam_update(start, lr, beta1, beta2, eps, {"W": 0.0, "b": 0.0})
        three_steps(case, prefix, adam, parameters, gradients, update, clip if prefix else None)
    case.write()


def optimiser_start(rng):
    """Two parameters, and their gradients in three steps."""
    start = {"W": rng.normal(3, 4), "b": rng.normal(5)}
    gradients = [{n: rng.normal(*v.shape) for n, v in start.items()} for _ in range(3)]
    return start, gradients


def adam_update(start, lr, beta1, beta2, eps, decays):
    """A second implementation of Adam, with decoupled weight decay, for three_steps."""
    m = {n: torch.zeros_like(v) for n, v in start.items()}
    v = {n: torch.zeros_like(v) for n, v in start.items()}

    def update(n, i, w, g):
        m[n] = beta1 * m[n] + (1 - beta1) * g
        v[n] = beta2 * v[n] + (1 - beta2) * g ** 2
        m_hat, v_hat = m[n] / (1 - beta1 ** i), v[n] / (1 - beta2 ** i)
        return w - lr * (m_hat / (v_hat.sqrt() + eps) + decays[n] * w)
    return update


def three_steps(case, prefix, optimiser, parameters, gradients, update, before=None):
    """Runs three steps, each after before(i), and writes the parameters after each.
    update(name, i, w, g) -> w is a second implementation for comparison."""
    written_out = {n: p.detach().clone() for n, p in parameters.items()}
    for i, gradient in enumerate(gradients, 1):
        for name, parameter in parameters.items():
            parameter.grad = gradient[name].clone()
        if before:
            before(i)
        optimiser.step()
        case.add_all({f"{prefix}step{i}/{n}": p for n, p in parameters.items()})
        for n, p in parameters.items():
            written_out[n] = update(n, i, written_out[n], p.grad)
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
        update = adam_update(start, lr, beta1, beta2, eps, decays)
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

    for prefix, momentum, decay in (("plain/", 0.0, 0.0),
                                    ("decay/", 0.0, 0.25),
                                    ("momentum/", 0.9, 0.0),
                                    ("momentum_decay/", 0.9, 0.25)):
        case.add_all({"momentum": momentum, "weight_decay": decay}, prefix)
        parameters = {n: v.clone().requires_grad_() for n, v in start.items()}
        sgd = torch.optim.SGD(parameters.values(), lr=lr, momentum=momentum,
                              weight_decay=decay)
        v = {n: torch.zeros_like(v) for n, v in start.items()}

        def update(n, i, w, g):
            v[n] = momentum * v[n] + g + decay * w
            return w - lr * v[n]

        three_steps(case, prefix, sgd, parameters, gradients, update)
    case.write()


# ----------------------------------------------------------------------------------
# Single operations
# ----------------------------------------------------------------------------------


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    make_bidirectional(nn.LSTM, "bidirectional_lstm", 104)
    make_bidirectional(nn.GRU, "bidirectional_gru", 105)
    make_adam()
    make_adamw()
    make_sgd()
    make_stacked(nn.LSTM, "stacked_lstm", 143)
    make_stacked(nn.GRU, "stacked_gru", 144)


if __name__ == "__main__":
    main()
