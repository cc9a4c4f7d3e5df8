#!/usr/bin/env python3
"""Times in PyTorch, on the CPU, training steps, forward passes and greedy decoding of attention models;
prints one JSON line for each result. Run it with tuned.sh.

bahdanau  bidirectional GRU encoder; decoder GRU on the word and the context; additive attention;
          maxout readout of the state, the word and the context (Bahdanau et al., 2014)
luong     LSTM encoder; LSTM decoder with input feeding; general score (Luong et al., 2015)
transformer  encoder and decoder (Vaswani et al., 2017), pre-norm
lm        decoder-only Transformer, with GELU

Operations that do not depend on the previous step are computed for all steps at once. The script tries
the loop over the target in Python and in TorchScript, and its sums over the source as batched matrix
products and as sums, and reports the fastest variant. It also tries torch.compile, for Transformers,
and with --compile for the loops.
"""
import argparse
import itertools
import json
import os
import resource
import statistics
import time
from typing import List, Tuple

# E, H, A, V: embedding, hidden, attention and vocabulary size. S, T: source and target steps. B: batch
# size. L: layers (luong).
SIZES = {
    "toy": dict(E=64, H=128, A=128, V=32, S=30, T=10, B=64, L=1),
    "small": dict(E=256, H=256, A=256, V=32, S=30, T=10, B=64, L=1),
    "medium": dict(E=256, H=512, A=512, V=10000, S=20, T=20, B=64, L=2),
    "large": dict(E=512, H=1000, A=1000, V=30000, S=30, T=30, B=80, L=2),
    # Transformers: model size E, feed-forward size H, A heads, L layers.
    "tiny": dict(E=128, H=256, A=4, V=10000, S=20, T=20, B=64, L=4),
    "base": dict(E=512, H=2048, A=8, V=10000, S=30, T=30, B=32, L=6),
    "nanogpt": dict(E=128, H=512, A=4, V=65, S=1, T=64, B=12, L=4),
    "gpt2": dict(E=768, H=3072, A=12, V=50257, S=1, T=64, B=4, L=12),
    # One sentence at a time, with the sizes of tests/install/small_program.py for "3 May 1979".
    "date": dict(E=8, H=16, A=8, V=62, S=10, T=11, B=1, L=1),
    "overhead": dict(E=8, H=8, A=8, V=16, S=4, T=20, B=1, L=2),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["bahdanau", "luong", "transformer", "lm"], default="bahdanau")
    parser.add_argument("--config", choices=list(SIZES), default="toy", help="sizes")
    parser.add_argument("--modes", default="train,fwd,greedy", help="what to time; train includes backward, clipping, Adam")
    parser.add_argument("--lengths", choices=["full", "varied"], default="full", help="varied: between half and full length")
    parser.add_argument("--steps", type=int, default=10, help="timed repetitions; the median is reported")
    parser.add_argument("--warmup", type=int, default=3, help="untimed repetitions before")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (default: all CPUs)")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="bf16: autocast")
    parser.add_argument("--compile", action="store_true", help="try torch.compile on loops, which takes minutes")
    parser.add_argument("--dump", metavar="NPZ", help="write weights, a batch, its loss and the gradients, and time nothing")
    return parser.parse_args()


options = parse()
# OpenMP and OpenBLAS read them when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
import torch
from torch import Tensor, nn

sizes = SIZES[options.config]
E, H, A, V, S, T, B, L = sizes.values()


def normal(*shape):
    """Initialised such that products with its rows preserve the variance."""
    return nn.Parameter(torch.randn(*shape) * shape[-1] ** -0.5)


class Attention(nn.Module):
    """The context vector of any score; `products` selects a batched matrix product for the sum."""

    def __init__(self):
        super().__init__()
        self.products = False

    def read(self, scores: Tensor, padding: Tensor, values: Tensor) -> Tensor:
        """scores (B, S), padding (B, S): 0 on words and -1e9 elsewhere, values (B, S, D) -> (B, D)"""
        weights = (scores + padding).softmax(1)
        if self.products:
            return weights.unsqueeze(1).bmm(values).squeeze(1)
        return (weights.unsqueeze(2) * values).sum(1)


class BahdanauDecoder(Attention):
    def __init__(self):
        super().__init__()
        self.split: Tuple[int, int, int] = (A, 2 * H, H)
        self.state = nn.Linear(H, sum(self.split))  # contributions to query, gates r and z, and n
        self.ctx = nn.Linear(2 * H, 3 * H, bias=False)
        self.v = normal(A)
        nn.init.zeros_(self.state.bias.data[:A])  # the paper's query has no bias

    def step(self, word: Tensor, s: Tensor, keys: Tensor, values: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor]:
        """word (B, 3H): contribution to the gates r z n -> state (B, H), context (B, 2H)"""
        a, rz, n = self.split
        query, s_rz, s_n = self.state(s).split([a, rz, n], 1)
        context = self.read((keys + query.unsqueeze(1)).tanh().matmul(self.v), padding, values)
        x_rz, x_n = torch.addmm(word, context, self.ctx.weight.t()).split([rz, n], 1)
        r, z = (x_rz + s_rz).sigmoid().chunk(2, 1)
        new = torch.addcmul(x_n, r, s_n).tanh()  # bf16 under autocast, like z
        return torch.lerp(new.to(s.dtype), s, z.to(s.dtype)), context

    def forward(self, words: Tensor, s: Tensor, keys: Tensor, values: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor]:
        states: List[Tensor] = []
        contexts: List[Tensor] = []
        for word in words.unbind():
            s, context = self.step(word, s, keys, values, padding)
            states.append(s)
            contexts.append(context)
        return torch.stack(states), torch.stack(contexts)


class LstmCell(nn.Module):
    def __init__(self, bias: bool):
        super().__init__()
        self.weight = normal(4 * H, 2 * H)  # gates i f o g
        if bias:
            self.bias = nn.Parameter(torch.zeros(4 * H))

    def forward(self, offset: Tensor, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:
        gates = torch.addmm(offset, torch.cat([x, h], 1), self.weight.t())
        n = c.size(1)
        i, f, o = gates[:, : 3 * n].sigmoid().chunk(3, 1)
        c = torch.addcmul(f * c, i, gates[:, 3 * n :].tanh())
        return o * c.tanh(), c


class LuongDecoder(Attention):
    def __init__(self):
        super().__init__()
        self.lowest = LstmCell(bias=False)  # `word` contains the bias
        self.upper = nn.ModuleList([LstmCell(bias=True) for _ in range(L - 1)])
        self.w_h = normal(H, 2 * H)

    def score(self, keys: Tensor, h: Tensor) -> Tensor:
        if self.products:
            return keys.bmm(h.unsqueeze(2)).squeeze(2)
        return (keys * h.unsqueeze(1)).sum(2)

    def step(
        self, word: Tensor, fed: Tensor, hs: List[Tensor], cs: List[Tensor],
        keys: Tensor, values: Tensor, padding: Tensor,
    ) -> Tuple[Tensor, List[Tensor], List[Tensor]]:
        """word (B, 4H): contribution to the gates of the lowest layer; fed (B, H): last attentional vector
        -> attentional vector (B, H), states of the layers"""
        h, c = self.lowest(word, fed, hs[0], cs[0])
        next_hs, next_cs = [h], [c]
        for i, cell in enumerate(self.upper):
            h, c = cell(cell.bias, h, hs[i + 1], cs[i + 1])
            next_hs.append(h)
            next_cs.append(c)
        context = self.read(self.score(keys, h), padding, values)
        return torch.cat([context, h], 1).mm(self.w_h.t()).tanh(), next_hs, next_cs

    def forward(
        self, words: Tensor, fed: Tensor, hs: List[Tensor], cs: List[Tensor],
        keys: Tensor, values: Tensor, padding: Tensor,
    ) -> Tensor:
        vectors: List[Tensor] = []
        for word in words.unbind():
            fed, hs, cs = self.step(word, fed, hs, cs, keys, values, padding)
            vectors.append(fed)
        return torch.stack(vectors)


class Batch:
    """Random words. source (S, B), target (T + 1, B); -100 in `next` is padding."""

    def __init__(self, sentences):
        self.source = torch.randint(V, (S, sentences))
        self.lengths = torch.full((sentences,), S)
        target = torch.randint(V, (T + 1, sentences))
        self.previous, self.next = target[:-1].contiguous(), target[1:].clone()
        if options.lengths == "varied":
            self.lengths = torch.randint(S // 2, S + 1, (sentences,)).sort(descending=True).values
            target_lengths = torch.randint(T // 2, T + 1, (sentences,))
            self.next[torch.arange(T).unsqueeze(1) >= target_lengths] = -100
        outside = torch.arange(S) >= self.lengths.unsqueeze(1)
        self.padding = torch.zeros(sentences, S).masked_fill(outside, -1e9)


class Model(nn.Module):
    def __init__(self, encoder, key, decoder, gates, readout):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(V, E), nn.Embedding(V, E)
        self.enc, self.key, self.decoder = encoder, key, decoder
        self.pre = nn.Linear(E, gates * H)
        self.out = nn.Linear(readout, V)
        self.loops = {"python": decoder, "jit": torch.jit.script(decoder)}
        if options.compile:
            self.loops["compile"] = torch.compile(decoder)
        self.choose("python", False)

    def choose(self, loop, products):
        self.loop = [self.loops[loop]]  # a list hides it from nn.Module, which has it already
        self.loop[0].products = products

    def encode(self, batch):
        x = self.src_emb(batch.source)
        if options.lengths == "varied":
            packed = nn.utils.rnn.pack_padded_sequence(x, batch.lengths)
            annotations, last = self.enc(packed)
            annotations, _ = nn.utils.rnn.pad_packed_sequence(annotations, total_length=S)
        else:
            annotations, last = self.enc(x)
        values = annotations.transpose(0, 1).contiguous()
        return last, (self.key(values), values, batch.padding)

    def loss(self, batch):
        logits = self.out(self.readouts(batch))
        return nn.functional.cross_entropy(logits.view(-1, V), batch.next.view(-1))

    def greedy(self, batch):
        words = []
        advance = self.start(batch)
        word = torch.ones(batch.source.size(1), dtype=torch.long)
        for _ in range(T):
            word = self.out(advance(self.tgt_emb(word))).argmax(1)
            words.append(word)
        return torch.stack(words)


class Bahdanau(Model):
    def __init__(self):
        encoder = nn.GRU(E, H, bidirectional=True)
        super().__init__(encoder, nn.Linear(2 * H, A, bias=False), BahdanauDecoder(), gates=3, readout=E)
        self.init = nn.Linear(H, H)
        self.read = nn.Linear(H + E + 2 * H, 2 * E)

    def readout(self, s, y, context):
        return torch.maximum(*self.read(torch.cat([s, y, context], -1)).chunk(2, -1))

    def readouts(self, batch):
        last, memory = self.encode(batch)
        y = self.tgt_emb(batch.previous)
        states, contexts = self.loop[0](self.pre(y), self.init(last[1]).tanh(), *memory)
        return self.readout(states, y, contexts)

    def start(self, batch):
        last, memory = self.encode(batch)
        s = self.init(last[1]).tanh()

        def advance(y):
            nonlocal s
            s, context = self.loop[0].step(self.pre(y), s, *memory)
            return self.readout(s, y, context)

        return advance

    def flops(self):
        """FLOPs of a forward pass; counts only matrix products and sums over the source."""
        source = 2 * 3 * H * (E + H) + 2 * H * A
        target = H * (A + 3 * H) + 3 * H * (E + 2 * H) + S * (A + 2 * H) + 2 * E * (3 * H + E) + E * V
        return 2 * B * (S * source + H * H + T * target)


class Luong(Model):
    def __init__(self):
        encoder = nn.LSTM(E, H, num_layers=L)
        super().__init__(encoder, nn.Linear(H, H, bias=False), LuongDecoder(), gates=4, readout=H)

    def initial(self, batch):
        (h, c), memory = self.encode(batch)
        return torch.zeros(batch.source.size(1), H), list(h.unbind()), list(c.unbind()), memory

    def readouts(self, batch):
        fed, hs, cs, memory = self.initial(batch)
        return self.loop[0](self.pre(self.tgt_emb(batch.previous)), fed, hs, cs, *memory)

    def start(self, batch):
        fed, hs, cs, memory = self.initial(batch)

        def advance(y):
            nonlocal fed, hs, cs
            fed, hs, cs = self.loop[0].step(self.pre(y), fed, hs, cs, *memory)
            return fed

        return advance

    def flops(self):
        upper = (L - 1) * 2 * H
        source = 4 * H * (E + H + upper) + H * H
        target = 4 * H * (E + 2 * H + upper) + S * 2 * H + 2 * H * H + H * V
        return 2 * B * (S * source + T * target)


def attend(q, k, v, causal):
    if hasattr(nn.functional, "scaled_dot_product_attention"):
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
    return scores.softmax(-1) @ v


class MultiHeadAttention(nn.Module):
    """Self-attention uses one matrix product for queries, keys and values."""

    def __init__(self, own, causal=False):
        super().__init__()
        self.own, self.causal = own, causal
        self.query = nn.Linear(E, 3 * E if own else E)
        self.memory = None if own else nn.Linear(E, 2 * E)
        self.output = nn.Linear(E, E)

    def forward(self, x, memory):
        parts = self.query(x).chunk(3, -1) if self.own else (self.query(x), *self.memory(memory).chunk(2, -1))
        q, k, v = (part.unflatten(-1, (A, E // A)).transpose(1, 2) for part in parts)
        y = attend(q, k, v, self.causal)
        return self.output(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, causal, cross, activation):
        super().__init__()
        self.own, self.cross = MultiHeadAttention(True, causal), MultiHeadAttention(False) if cross else None
        self.norms = nn.ModuleList([nn.LayerNorm(E) for _ in range(3 if cross else 2)])
        self.inner, self.outer, self.activation = nn.Linear(E, H), nn.Linear(H, E), activation

    def forward(self, x, memory):
        x = x + self.own(self.norms[0](x), None)
        if self.cross:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.outer(self.activation(self.inner(self.norms[1](x))))


class Transformer(nn.Module):
    """Batch-first; supports only full lengths."""

    def __init__(self):
        super().__init__()
        lm = options.model == "lm"
        activation = nn.GELU(approximate="tanh") if lm else nn.ReLU()
        self.encoder = nn.ModuleList([Layer(False, False, activation) for _ in range(0 if lm else L)])
        self.decoder = nn.ModuleList([Layer(True, not lm, activation) for _ in range(L)])
        self.norms = nn.ModuleList([nn.LayerNorm(E), nn.LayerNorm(E)] if not lm else [nn.LayerNorm(E)])
        self.source, self.target = None if lm else nn.Embedding(V, E), nn.Embedding(V, E)
        self.out = nn.Linear(E, V)
        self.out.weight = self.target.weight
        nn.init.normal_(self.target.weight, std=E**-0.5)
        self.register_buffer("positions", torch.randn(max(S, T), E))
        self.loops = {"python": self.plain_loss, "compile": torch.compile(self.plain_loss)} if hasattr(torch, "compile") else {"python": self.plain_loss}

    def choose(self, loop, products):
        self.loss = lambda batch: self.loops[loop](*(x.t().contiguous() for x in (batch.source, batch.previous, batch.next)))

    def plain_loss(self, source, previous, next_words):
        memory = None
        if self.source:
            memory = self.source(source) * E**0.5 + self.positions[:S]
            for layer in self.encoder:
                memory = layer(memory, None)
            memory = self.norms[1](memory)
        x = self.target(previous) * E**0.5 + self.positions[:T]
        for layer in self.decoder:
            x = layer(x, memory)
        return nn.functional.cross_entropy(self.out(self.norms[0](x)).view(-1, V), next_words.reshape(-1))

    def flops(self):
        layer = 4 * E * E + 2 * E * H
        target = L * (layer + 2 * T * E) + E * V
        if not self.source:
            return 2 * B * T * target
        source = L * (layer + 2 * S * E + 2 * E * E)
        return 2 * B * (S * source + T * (target + L * (2 * E * E + 2 * S * E)))


def timed(f, steps, warmup):
    """Returns the seconds of each call f(i)."""
    for i in range(warmup):
        f(i)
    seconds = []
    for i in range(steps):
        start = time.perf_counter()
        f(i)
        seconds.append(time.perf_counter() - start)
    return seconds


def dump(model, batch, path):
    import numpy

    loss = model.loss(batch)
    loss.backward()

    def npz_name(name):
        """The name that npz_to_safetensors.py expects."""
        name = name.removeprefix("decoder.").replace("lowest.weight", "ws.0")
        if name.startswith("upper."):
            _, i, kind = name.split(".")
            return f"ws.{int(i) + 1}" if kind == "weight" else f"bs.{i}"
        return name

    arrays = dict(src=batch.source, lens=batch.lengths, tgt_in=batch.previous, tgt_out=batch.next)
    for name, parameter in model.named_parameters():
        arrays["w." + npz_name(name)] = parameter.detach().numpy()
        arrays["g." + npz_name(name)] = parameter.grad.numpy()
    numpy.savez(path, loss=loss.item(), **arrays)


def main():
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)
    model = {"bahdanau": Bahdanau, "luong": Luong}.get(options.model, Transformer)()
    parameters = list(model.parameters())
    batches = [Batch(B) for _ in range(4)]
    if options.dump:
        return dump(model, batches[0], options.dump)
    fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {}
    adam = torch.optim.Adam(parameters, **fused)
    autocast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16")

    def train(i):
        adam.zero_grad(set_to_none=True)
        with autocast():
            loss = model.loss(batches[i % 4])
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()

    @torch.no_grad()
    def forward(i):
        with autocast():
            model.loss(batches[i % 4])

    def report(mode, f, steps, more):
        variants = list(itertools.product(model.loops, [False, True] if hasattr(model, "key") else [False]))

        def trial(variant):
            model.choose(*variant)
            return min(timed(f, 3, 2))

        loop, products = variant = min(variants, key=trial)
        model.choose(*variant)
        seconds = timed(f, steps, options.warmup)
        median = statistics.median(seconds)
        line = {
            "peer": "pytorch-" + torch.__version__,
            "threads": options.threads,
            "bench": mode,
            "variant": loop + ("/products" if products else "/sums"),
            "model": options.model,
            "config": options.config,
            "lengths": options.lengths,
            "precision": options.precision,
            "params": sum(parameter.numel() for parameter in parameters),
            **more(median),
            "ms_median": round(1e3 * median, 3),
            "ms_min": round(1e3 * min(seconds), 3),
            "steps": steps,
            "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        print(json.dumps(line), flush=True)

    for mode in options.modes.split(","):
        if mode == "greedy":
            for sentences in (1, 64):
                sources = Batch(sentences)
                steps = 3 * options.steps if sentences == 1 else options.steps
                decode = torch.no_grad()(lambda _: model.greedy(sources))
                rate = lambda median: {"batch": sentences, "sent_per_s": round(sentences / median, 2)}
                report(mode, decode, steps, rate)
        else:
            gflop = 1e-9 * model.flops() * (3 if mode == "train" else 1)
            words = sum(int((batch.next >= 0).sum()) for batch in batches) / 4
            rate = lambda median: {
                "tok_per_s": round(words / median),
                "gflop": round(gflop, 3),
                "gflops": round(gflop / median, 1),
            }
            report(mode, train if mode == "train" else forward, options.steps, rate)


if __name__ == "__main__":
    main()
