#!/usr/bin/env python3
"""Converts the dump of a peer to attune's parameter names and layout, for `train_step --check`:

    npz_to_safetensors.py FILE.npz FILE.safetensors

The NPZ file contains weights (w.NAME) and their gradients (g.NAME) in PyTorch's layout, one batch (src,
lens, tgt_in, tgt_out with -100 on padding) and its loss. The functions `bahdanau` and `luong` map
every NAME to attune's names.
"""
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"))
from attune import write_safetensors
from import_torch import gru, lstm

# attune's paths of the recurrent layers of the Bahdanau model, and of Luong's W_c.
BAHDANAU_ENCODER, BAHDANAU_DECODER, LUONG_W_C = "encoder.layer1", "decoder.layer1", "readout.W_c"


def one_bias(gradients):
    """Combines the two biases of a peer, which only adds them. The gradient of each is that of the sum."""
    return (lambda a, b: a) if gradients else np.add


def encoder_weights(p, suffix):
    return [p[f"enc.{kind}_{suffix}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def words(p):
    return {
        "source.E": p["src_emb.weight"],
        "target.E": p["tgt_emb.weight"],
        "output.W": p["out.weight"].T,
        "output.b": p["out.bias"],
    }


def bahdanau(p, gradients):
    A, H, E = p["key.weight"].shape[0], p["init.weight"].shape[0], p["src_emb.weight"].shape[1]
    # One product with the state s computes the query, s W_a, and its contribution to the gates, s W_h.
    W_a, W_h = np.split(p["state.weight"], [A])
    b_a, b_h = np.split(p["state.bias"], [A])
    U_o, V_o, C_o = np.split(p["read.weight"].T, [H, H + E])
    return {
        **words(p),
        **gru(f"{BAHDANAU_ENCODER}.forward.", *encoder_weights(p, "l0"), one_bias(gradients)),
        **gru(f"{BAHDANAU_ENCODER}.backward.", *encoder_weights(p, "l0_reverse"), one_bias(gradients)),
        "bridge.W": p["init.weight"].T,
        "bridge.b": p["init.bias"],
        "attention.W_a": W_a.T,
        "attention.U_a": p["key.weight"].T,
        "attention.v_a": p["v"],
        "attention.b_a": b_a,
        **gru(f"{BAHDANAU_DECODER}.", p["pre.weight"], W_h, p["pre.bias"], b_h, one_bias(gradients)),
        "decoder.W_c": p["ctx.weight"].T,
        "readout.U_o": U_o,
        "readout.V_o": V_o,
        "readout.C_o": C_o,
        "readout.b_o": p["read.bias"],
    }


def luong(p, gradients):
    H, layers = p["key.weight"].shape[0], sum(name.startswith("ws.") for name in p)
    ifgo = np.r_[0 : 2 * H, 3 * H : 4 * H, 2 * H : 3 * H]  # reorders the decoder's gates i f o g
    result = {**words(p), "attention.W_a": p["key.weight"], LUONG_W_C: p["w_h"].T}
    for i in range(layers):
        result |= lstm(f"encoder.layer{i + 1}.", *encoder_weights(p, f"l{i}"), one_bias(gradients))
        # One product with the layer's input (fed vector or output of the layer below) and its own state.
        below, own = np.split(p[f"ws.{i}"][ifgo], 2, axis=1)
        x, b = (below, p[f"bs.{i - 1}"]) if i else (p["pre.weight"][ifgo], p["pre.bias"])
        result |= lstm(f"decoder.layer{i + 1}.", x, own, b[ifgo], np.zeros_like(b))
        if i == 0:
            result["decoder.W_feed"] = below.T
    return result


def batch(npz):
    sources, targets = npz["src"], npz["tgt_out"]
    return {
        "batch.source": sources.astype(np.int32),
        "batch.source_mask": (np.arange(len(sources))[:, None] < npz["lens"]).astype(np.float32),
        "batch.previous": npz["tgt_in"].astype(np.int32),
        "batch.next": np.maximum(targets, 0).astype(np.int32),
        "batch.target_mask": (targets >= 0).astype(np.float32),
    }


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    npz = dict(np.load(sys.argv[1]))
    weights, slopes = ({k[2:]: v for k, v in npz.items() if k.startswith(kind)} for kind in ("w.", "g."))
    model = bahdanau if "init.weight" in weights else luong
    # The papers have no bias b_a; a bias of zeros is equivalent to none.
    tensors = {**model(weights, False), **batch(npz), "loss": npz["loss"]}
    tensors |= {f"gradient.{name}": slope for name, slope in model(slopes, True).items()}
    if not tensors.get("attention.b_a", np.ones(1)).any():
        del tensors["attention.b_a"], tensors["gradient.attention.b_a"]
    (V, E), A = weights["src_emb.weight"].shape, weights["key.weight"].shape[0]
    H = weights["enc.weight_hh_l0"].shape[1]
    L = sum(name.startswith("ws.") for name in weights) or 1
    sizes = {"E": E, "H": H, "A": A, "V": V, "L": L}
    write_safetensors(sys.argv[2], tensors, {"model": model.__name__, **{k: str(n) for k, n in sizes.items()}})


if __name__ == "__main__":
    main()
