#!/usr/bin/env python3
"""Converts a Transformer of attune to a model of CTranslate2, whose inputs and outputs are tokens.

    pip install ctranslate2==4.8.5 numpy
    examples/python/to_ctranslate2.py attune-model/best.safetensors DIRECTORY
"""
import argparse
import json
import os

import ctranslate2
import numpy as np
from attune import Arguments, Error, read_safetensors, run
from ctranslate2.specs import common_spec, transformer_spec

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
FUNCTIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELUTanh}
POSITIONS = 512  # longest sequence; attune has no limit


def spec_of(t, meta):
    """The specification of a model, from the tensors and the metadata of attune's file."""
    before = meta["norm"] == "before"
    spec = transformer_spec.TransformerSpec.from_config(
        (int(meta["encoder-layers"]), int(meta["decoder-layers"])), int(meta["attention-heads"]),
        pre_norm=before, activation=FUNCTIONS[meta["nonlinearity"]])

    def linear(to, *names):
        to.weight = np.ascontiguousarray(np.concatenate([t[n + ".W"] for n in names], 1).T)
        to.bias = np.concatenate([t[n + ".b"] for n in names])

    def norm(to, name):
        to.gamma, to.beta = t[name + ".gain"], t[name + ".bias"]

    size = int(meta["hidden"])
    i, position = np.arange(size), np.arange(POSITIONS)[:, None]
    angle = position / 10000.0 ** ((i // 2 * 2) / size)
    for side, to in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        to.position_encodings.encodings = np.where(i % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)
        if before:
            norm(to.layer_norm, side + ".norm")
        for number, layer in enumerate(to.layer, 1):
            p = f"{side}.layer{number}."
            linear(layer.self_attention.linear[0], p + "self.query", p + "self.memory")
            linear(layer.self_attention.linear[1], p + "self.output")
            linear(layer.ffn.linear_0, p + "feed.inner")
            linear(layer.ffn.linear_1, p + "feed.outer")
            norm(layer.self_attention.layer_norm, p + "self_norm")
            norm(layer.ffn.layer_norm, p + "feed_norm")
            if side == "decoder":
                for part, name in zip(layer.attention.linear, ("query", "memory", "output")):
                    linear(part, f"{p}cross.{name}")
                norm(layer.attention.layer_norm, p + "cross_norm")
    spec.encoder.embeddings[0].weight = t.get("source.E", t["target.E"])
    spec.decoder.embeddings.weight = t["target.E"]
    spec.decoder.projection.weight = t["target.E"] if meta["tied"] != "none" else np.ascontiguousarray(t["output.W"].T)
    spec.decoder.projection.bias = t["output.b"].copy()
    spec.decoder.projection.bias[[0, 1, 3]] = -1e9  # attune predicts no <pad>, <s> and <unk>
    spec.register_source_vocabulary(SPECIAL + json.loads(meta["source_vocabulary"]))
    spec.register_target_vocabulary(SPECIAL + json.loads(meta["target_vocabulary"]))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.decoder_start_token, spec.config.layer_norm_epsilon = "<s>", 1e-5
    return spec


def convert(path, directory):
    """Writes the model file `path` to `directory`."""
    tensors, meta = read_safetensors(path)
    if meta.get("model") != "transformer":
        raise Error(f"{path}: expected a model of attune train --model transformer")
    spec = spec_of(tensors, meta)
    spec.validate()
    spec.optimize()
    os.makedirs(directory, exist_ok=True)
    spec.save(directory)


def main():
    parser = Arguments(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("directory")
    arguments = parser.parse_args()
    convert(arguments.model, arguments.directory)


if __name__ == "__main__":
    run(main)
