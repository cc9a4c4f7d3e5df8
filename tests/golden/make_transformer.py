"""Writes transformer.json: nn.MultiheadAttention, and a Transformer around nn.Transformer.

    python3 tests/golden/make_transformer.py

Needs PyTorch 2.13 or later. Parameters have the names and the layout of nn/transformer.hpp and
models/transformer.hpp. The tests repeat CASES and MODELS.
"""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from make_golden import Case, Random, evaluate, mask_of

T, S, B, D, HEADS, INNER, MEMORY, V = 3, 4, 2, 4, 2, 3, 2, 5
# name, size of the memory (0: self-attention), causal, key padding with holes
CASES = [("self causal", 0, True, False), ("cross of another size, masked", MEMORY, False, True)]
# norm, nonlinearity, tied
MODELS = [("after", "relu", "none"), ("before", "gelu", "all")]
HOLES = torch.tensor([[1, 0], [1, 1], [0, 1], [1, 0]], dtype=torch.float64)


def attention_parameters(rng, prefix="", memory=D):
    """Weights (in, out); those of keys and values are concatenated."""
    sizes = {"query": (D, D), "memory": (memory, 2 * D), "output": (D, D)}
    p = {}
    for name, shape in sizes.items():
        p[f"{prefix}{name}.W"] = rng.normal(*shape, scale=0.7)
        p[f"{prefix}{name}.b"] = rng.normal(shape[1], scale=0.5)
    return p


def attention_of(p, prefix=""):
    """The same weights with the names and shapes of nn.MultiheadAttention."""
    weights = (p[prefix + "query.W"].T, *p[prefix + "memory.W"].T.chunk(2))
    theirs = {"in_proj_bias": torch.cat([p[prefix + "query.b"], p[prefix + "memory.b"]]),
              "out_proj.weight": p[prefix + "output.W"].T, "out_proj.bias": p[prefix + "output.b"]}
    if weights[1].shape[1] == D:
        return theirs | {"in_proj_weight": torch.cat(weights)}
    return theirs | dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights))


def by_module(memory, causal):
    size = memory or D
    module = nn.MultiheadAttention(D, HEADS, kdim=size, vdim=size, dtype=torch.float64)

    def run(p):
        x, h = p["x"], p.get("h", p["x"])
        later = torch.triu(torch.ones(len(x), len(h), dtype=torch.bool), 1) if causal else None
        padding = p["mask"].T == 0 if "mask" in p else None
        y, weights = functional_call(module, attention_of(p), (x, h, h), {
            "attn_mask": later, "key_padding_mask": padding, "average_attn_weights": False})
        return {"y": y, "weights": weights.permute(2, 1, 3, 0)}  # (T, heads, S, B)
    return run


def by_equations(causal):
    def run(p):
        x, h = p["x"], p.get("h", p["x"])
        q, kv = x @ p["query.W"] + p["query.b"], h @ p["memory.W"] + p["memory.b"]
        seen = p["mask"] if "mask" in p else torch.ones(h.shape[:2])
        reads, all_weights = [], []
        for head in range(HEADS):
            a = D // HEADS
            part = slice(head * a, (head + 1) * a)
            e = torch.einsum("tba,sba->tsb", q[..., part], kv[..., part]) / math.sqrt(a)
            used = seen[None].expand(e.shape).clone()
            if causal:
                used = used * torch.tril(torch.ones(len(x), len(h)))[..., None]
            w = torch.softmax(e.masked_fill(used == 0, -math.inf), 1)
            all_weights.append(w)
            reads.append(torch.einsum("tsb,sba->tba", w, kv[..., D:][..., part]))
        y = torch.cat(reads, -1) @ p["output.W"] + p["output.b"]
        return {"y": y, "weights": torch.stack(all_weights, 1)}
    return run


def write_attention(case, rng):
    for name, memory, causal, masked in CASES:
        p = {"x": rng.normal(T if memory else S, B, D), **attention_parameters(rng, memory=memory or D)}
        if memory:
            p["h"] = rng.normal(S, B, memory)
        evaluate(case, rng, by_module(memory, causal), p, {"mask": HOLES} if masked else {},
                 prefix=name + "/", same_as=by_equations(causal))


def layer_parameters(rng, prefix, cross):
    p = {}
    for part in ("self", "cross") if cross else ("self",):
        p |= attention_parameters(rng, f"{prefix}{part}.")
    p |= {prefix + "feed.inner.W": rng.normal(D, INNER, scale=0.7), prefix + "feed.inner.b": rng.normal(INNER),
          prefix + "feed.outer.W": rng.normal(INNER, D, scale=0.7), prefix + "feed.outer.b": rng.normal(D)}
    for part in ("self", "cross", "feed") if cross else ("self", "feed"):
        p |= norm_parameters(rng, f"{prefix}{part}_norm.")
    return p


def norm_parameters(rng, prefix):
    return {prefix + "gain": rng.normal(D, scale=0.3) + 1, prefix + "bias": rng.normal(D, scale=0.5)}


def layer_of(p, ours, theirs, cross):
    named = {f"{theirs}self_attn.{n}": w for n, w in attention_of(p, ours + "self.").items()}
    if cross:
        named |= {f"{theirs}multihead_attn.{n}": w for n, w in attention_of(p, ours + "cross.").items()}
    for number, part in (1, "inner"), (2, "outer"):
        named[f"{theirs}linear{number}.weight"] = p[f"{ours}feed.{part}.W"].T
        named[f"{theirs}linear{number}.bias"] = p[f"{ours}feed.{part}.b"]
    for number, part in enumerate(("self", "cross", "feed") if cross else ("self", "feed"), 1):
        named |= norm_of(p, f"{ours}{part}_norm.", f"{theirs}norm{number}.")
    return named


def norm_of(p, ours, theirs):
    return {theirs + "weight": p[ours + "gain"], theirs + "bias": p[ours + "bias"]}


def positions(steps):
    t, i = torch.arange(steps, dtype=torch.float64)[:, None], torch.arange(0, D, 2, dtype=torch.float64)
    angles = t / 10000 ** (i / D)
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(steps, 1, D)


def model(norm, nonlinearity, tied):
    first = norm == "before"

    def last():
        return nn.LayerNorm(D, dtype=torch.float64) if first else None

    how = {"d_model": D, "nhead": HEADS, "dim_feedforward": INNER, "dropout": 0.0, "norm_first": first,
           "activation": F.relu if nonlinearity == "relu" else functools.partial(F.gelu, approximate="tanh"),
           "dtype": torch.float64}
    module = nn.Transformer(
        D, HEADS, dtype=torch.float64,
        custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(**how), 2, last(), False),
        custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**how), 2, last()))

    def run(p):
        theirs = {}
        for side, cross in ("encoder", False), ("decoder", True):
            for n in 1, 2:
                theirs |= layer_of(p, f"{side}.layer{n}.", f"{side}.layers.{n - 1}.", cross)
            if first:
                theirs |= norm_of(p, f"{side}.norm.", f"{side}.norm.")
        target = p["target.E"]
        source = target if tied == "all" else p["source.E"]
        x = source[p["source"]] * math.sqrt(D) + positions(S)
        y = target[p["previous"]] * math.sqrt(D) + positions(T)
        padding = p["source_mask"].T == 0
        y = functional_call(module, theirs, (x, y), {
            "tgt_mask": torch.triu(torch.ones(T, T, dtype=torch.bool), 1), "src_key_padding_mask": padding,
            "memory_key_padding_mask": padding, "tgt_key_padding_mask": p["target_mask"].T == 0})
        return {"logits": y @ (p["output.W"] if tied == "none" else target.T) + p["output.b"]}
    return run


def write_models(case, rng):
    lengths, target_lengths = [2, 4], [3, 1]
    for norm, nonlinearity, tied in MODELS:
        p = {"target.E": rng.normal(V, D, scale=0.5)}
        if tied != "all":
            p["source.E"] = rng.normal(V, D, scale=0.5)
        for side, cross in ("encoder", False), ("decoder", True):
            for n in 1, 2:
                p |= layer_parameters(rng, f"{side}.layer{n}.", cross)
            if norm == "before":
                p |= norm_parameters(rng, f"{side}.norm.")
        p["output.b"] = rng.normal(V)
        if tied == "none":
            p["output.W"] = rng.normal(D, V)
        ids = {"source": rng.integers(S, B, low=0, high=V), "previous": rng.integers(T, B, low=0, high=V)}
        masks = {"source_mask": mask_of(lengths, S), "target_mask": mask_of(target_lengths, T)}
        evaluate(case, rng, model(norm, nonlinearity, tied), p, {**ids, **masks},
                 prefix=f"{norm} {nonlinearity} {tied}/", padded={"logits": masks["target_mask"]})


def main():
    torch.set_num_threads(1)
    case, rng = Case("transformer"), Random(1706)
    write_attention(case, rng)
    write_models(case, rng)
    case.write()


if __name__ == "__main__":
    main()
