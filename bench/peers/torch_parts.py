#!/usr/bin/env python3
"""Times in PyTorch, on the CPU, the same parts of models as build/bench/parts; prints one JSON line for
each part. Run it with tuned.sh. If there are several ways to write a part, it tries all of them and
reports the fastest.
"""
import argparse
import json
import math
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--only", metavar="NAME,...", help="parts to time (default: all)")
parser.add_argument("--steps", type=int, default=20, help="timed repetitions; the median is reported")
parser.add_argument("--warmup", type=int, default=3, help="untimed repetitions before")
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (default: all CPUs)")
options = parser.parse_args()
# OpenMP and OpenBLAS read them when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
import numpy
import torch
from torch import nn

PARTS = {}  # name -> a function that returns sizes and {variant: step}; a step returns its results


def part(function):
    PARTS[function.__name__] = function


def mixed(shape, seed, scale=1.0):
    """The same pseudo-random elements as fill_mixed of bench/support/program.hpp."""
    h = numpy.arange(math.prod(shape), dtype=numpy.uint32)
    h = (h + numpy.uint32(seed * 1000003)) * numpy.uint32(0x9E3779B1)
    h = (h ^ h >> 15) * numpy.uint32(0x85EBCA77)
    h ^= h >> 13
    x = ((h >> 8) / numpy.float32(8388608) - 1).astype("float32") * numpy.float32(scale)
    return torch.from_numpy(x).view(shape)


def leaf(x):
    return x.contiguous().requires_grad_()


def differentiate(f, dy, leaves):
    """A step that returns y = f() and the gradients of the leaves."""

    def step():
        for x in leaves:
            x.grad = None
        y = f()
        y.backward(dy)
        return [y] + [x.grad for x in leaves]

    return step


@part
def lstm_fwd_bwd():
    """nn.LSTM has two biases with equal gradients; the second one stays zero."""
    T, B, H = 20, 64, 512
    layer = nn.LSTM(H, H)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(mixed((H, 4 * H), 1, 0.04).t())
        layer.weight_hh_l0.copy_(mixed((H, 4 * H), 2, 0.04).t())
        layer.bias_ih_l0.copy_(mixed((4 * H,), 3, 0.1))
        layer.bias_hh_l0.zero_()
    x, h0, c0 = leaf(mixed((T, B, H), 4)), leaf(mixed((1, B, H), 5)), leaf(mixed((1, B, H), 6))
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]
    step = differentiate(lambda: layer(x, (h0, c0))[0], mixed((T, B, H), 7), [x, *weights, h0, c0])
    return dict(B=B, H=H, T=T), {"nn.LSTM": step}, 3 * 2e-9 * T * B * 4 * H * 2 * H


@part
def additive_attention_fwd_bwd():
    S, B, A, D = 30, 64, 512, 1024
    q, v = leaf(mixed((B, A), 1)), leaf(mixed((A,), 4))
    keys, values = (leaf(mixed((S, B, n), seed).transpose(0, 1)) for n, seed in ((A, 2), (D, 3)))
    padding = torch.zeros(B, S)

    def attend(products):
        scores = (keys + q.unsqueeze(1)).tanh().matmul(v)
        weights = (scores + padding).softmax(1)
        return weights.unsqueeze(1).bmm(values).squeeze(1) if products else (weights.unsqueeze(2) * values).sum(1)

    steps = {
        name: differentiate(lambda products=products: attend(products), mixed((B, D), 5), [q, keys, values, v])
        for name, products in (("products", True), ("sums", False))
    }
    return dict(A=A, B=B, S=S, values=D), steps, 0


@part
def cross_entropy_fwd_bwd():
    rows, classes = 1280, 10000
    logits, targets = leaf(mixed((rows, classes), 1, 4)), torch.arange(rows) * 7919 % classes
    step = differentiate(lambda: nn.functional.cross_entropy(logits, targets), None, [logits])
    return dict(classes=classes, rows=rows), {"functional": step}, 0


def parameters():
    """20 million parameters with gradients."""
    result = [nn.Parameter(torch.zeros(2000, 1000)) for _ in range(10)]
    for i, w in enumerate(result):
        w.grad = mixed(w.shape, i)
    return result


@part
def adam_20m():
    def step_with(foreach):
        ws = parameters()
        adam = torch.optim.Adam(ws, foreach=foreach)

        def step():
            adam.step()
            return ws[:1]

        return step

    return {}, {"foreach": step_with(True), "single": step_with(False)}, 0


@part
def clip_norm_20m():
    """Each step clips to 0.999 times the last norm, so that the gradients are always scaled."""
    ws = parameters()
    norm = math.sqrt(sum(float(w.grad.double().square().sum()) for w in ws))

    def step():
        nonlocal norm
        norm *= 0.999
        return [nn.utils.clip_grad_norm_(ws, norm), ws[0].grad]

    return {}, {"clip_grad_norm_": step}, 0


class Listener(nn.Module):
    """A pyramid encoder over frames, additive attention, and a decoder of words. One of PyTorch's two
    biases stays zero."""
    S, B, D, H, E, R, T, V = 400, 32, 40, 128, 32, 64, 20, 32

    def __init__(self):
        super().__init__()
        H, E, R, V = self.H, self.E, self.R, self.V
        self.pyramid = nn.ModuleList([nn.LSTM(n, H, bidirectional=True) for n in (2 * self.D, 4 * H, 4 * H)])
        self.table, self.bridge = nn.Embedding(V, E), nn.Linear(H, H)
        self.keys, self.query = nn.Linear(2 * H, H, bias=False), nn.Linear(H, H, bias=False)
        self.v = nn.Parameter(torch.zeros(H))
        self.word, self.ctx = nn.Linear(E, 4 * H), nn.Linear(2 * H, 4 * H, bias=False)
        self.state = nn.Linear(H, 4 * H, bias=False)
        self.read, self.out = nn.Linear(3 * H + E, 2 * R), nn.Linear(R, V)
        for name, x in self.pyramid.named_parameters():
            x.requires_grad_("bias_hh" not in name)  # it stays zero
        self.frames = mixed((self.S, self.B, self.D), 1)
        count = torch.arange(self.T * self.B)
        self.previous, self.next = ((count * n % V).view(self.T, self.B) for n in (7919, 104729))
        self.fill()

    def named(self):
        """attune's name -> tensor; a tuple contains the parts of one matrix of attune."""
        all = {"attention.U_a": self.keys.weight, "attention.W_a": self.query.weight, "attention.v_a": self.v,
               "bridge.W": self.bridge.weight, "bridge.b": self.bridge.bias, "decoder.W_c": self.ctx.weight,
               "decoder.layer1.W_h": self.state.weight, "decoder.layer1.W_x": self.word.weight,
               "decoder.layer1.b": self.word.bias, "output.W": self.out.weight, "output.b": self.out.bias,
               "target.E": self.table.weight, "readout.b_o": self.read.bias}
        for i, layer in enumerate(self.pyramid):
            for suffix, direction in (("", "forward"), ("_reverse", "backward")):
                place = f"listener.layer{i + 1}.{direction}."
                all[place + "W_x"] = getattr(layer, "weight_ih_l0" + suffix)
                all[place + "W_h"] = getattr(layer, "weight_hh_l0" + suffix)
                all[place + "b"] = getattr(layer, "bias_ih_l0" + suffix)
        H, E = self.H, self.E
        for name, columns in (("U_o", slice(0, H)), ("V_o", slice(H, H + E)), ("C_o", slice(H + E, None))):
            all["readout." + name] = (self.read.weight, columns)
        return dict(sorted(all.items()))

    @torch.no_grad()
    def fill(self):
        for x in self.parameters():
            x.zero_()
        for seed, (name, x) in enumerate(self.named().items(), 2):
            x = x[0][:, x[1]] if isinstance(x, tuple) else x
            ours = x if x.dim() == 1 or name == "target.E" else x.t()
            ours.copy_(mixed(tuple(ours.shape), seed, 0.1))

    def gradients(self):
        return [x[0].grad[:, x[1]] if isinstance(x, tuple) else x.grad for x in self.named().values()]

    def loss(self, decode):
        h = self.frames
        for layer in self.pyramid:
            t, b, d = h.shape
            h, (last, _) = layer(h.view(t // 2, 2, b, d).transpose(1, 2).reshape(t // 2, b, 2 * d))
        values = h.transpose(0, 1).contiguous()
        y, s = self.table(self.previous), self.bridge(last[1]).tanh()
        w = torch.cat([self.query.weight, self.state.weight])
        states, contexts = decode(self.word(y), s, torch.zeros_like(s), self.keys(values), values, w, self.ctx.weight, self.v)
        t = torch.maximum(*self.read(torch.cat([states, y, contexts], -1)).chunk(2, -1))
        return nn.functional.cross_entropy(self.out(t).view(-1, self.V), self.next.view(-1))


def decode(words, s, cell, keys, values, w, w_c, v):
    """words (T, B, 4H), keys (B, S, A), values (B, S, D), w (A + 4H, H): for query and gates"""
    n = s.size(1)
    states, contexts = [], []
    for word in words.unbind():
        query, gates = s.mm(w.t()).split([n, 4 * n], 1)
        weights = (keys + query.unsqueeze(1)).tanh().matmul(v).softmax(1)
        context = weights.unsqueeze(1).bmm(values).squeeze(1)
        i, f, g, o = (torch.addmm(word, context, w_c.t()) + gates).chunk(4, 1)
        cell = torch.addcmul(f.sigmoid() * cell, i.sigmoid(), g.tanh())
        s = o.sigmoid() * cell.tanh()
        states.append(s)
        contexts.append(context)
    return torch.stack(states), torch.stack(contexts)


@part
def listener_step():
    def step_with(loop, foreach):
        model = Listener()
        weights = [x for x in model.parameters() if x.requires_grad]
        adam = torch.optim.Adam(weights, foreach=foreach)

        def step():
            for x in weights:
                x.grad = None
            loss = model.loss(loop)
            loss.backward()
            nn.utils.clip_grad_norm_(weights, 1)
            gradients = [x.clone() for x in model.gradients()] if not adam.state else []
            adam.step()
            return [loss, *gradients]

        return step

    loops = {"python": decode, "jit": torch.jit.script(decode)}
    steps = {f"{name} {'foreach' if foreach else 'single'}": step_with(loop, foreach)
             for name, loop in loops.items() for foreach in (True, False)}
    return dict(B=Listener.B, H=Listener.H, S=Listener.S, T=Listener.T), steps, 0


def timed(step, steps, warmup):
    """Returns the seconds of each call."""
    for _ in range(warmup):
        step()
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


def measure(name):
    sizes, variants, gflop = PARTS[name]()
    norms = [float(x.double().norm()) for x in next(iter(variants.values()))()]
    variant = min(variants, key=lambda v: min(timed(variants[v], 5, 2)))
    seconds = timed(variants[variant], options.steps, options.warmup)
    median = statistics.median(seconds)
    line = {"peer": "pytorch-" + torch.__version__, "threads": options.threads, "bench": name, "variant": variant}
    line |= sizes | {"norms": norms}
    if gflop:
        line |= {"gflop": round(gflop, 3), "gflops": round(gflop / median, 1)}
    line |= {"ms_median": round(1e3 * median, 3), "ms_min": round(1e3 * min(seconds), 3), "steps": options.steps}
    print(json.dumps(line), flush=True)


def main():
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    names = options.only.split(",") if options.only else list(PARTS)
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"'{unknown[0]}' is not one of {', '.join(PARTS)}")
    for name in names:
        measure(name)


if __name__ == "__main__":
    main()
