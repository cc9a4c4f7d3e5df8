#!/usr/bin/env python3
"""Compares decoding of a Transformer (--norm before) with CTranslate2, on one thread: prints CPU seconds.

    pip install ctranslate2==4.8.5 numpy
    bench/decode.py MODEL.safetensors SENTENCES

Converts the weights, counts the sentences whose scores agree (the searches end by different rules), and
runs the programs alternately. The times are minima, without loading and, for CTranslate2, tokenisation.
A model trained with --shortlist yes is also measured with --shortlist.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/python"))
from attune import read_safetensors  # noqa: E402

ROWS = [("beam 5, batch 64", 5, 64, None), ("greedy, batch 64", 1, 64, None),
        ("beam 5, one by one", 5, 1, 60), ("greedy, one by one", 1, 1, 60)]
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
FUNCTIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELUTanh}


def convert(path, out):
    """Writes the model in the format of CTranslate2. Returns whether it has a shortlist."""
    t, meta = read_safetensors(path)
    if meta["model"] != "transformer" or meta["norm"] != "before":
        sys.exit(f"{path}: not a Transformer with --norm before")
    spec = transformer_spec.TransformerSpec.from_config(
        (int(meta["encoder-layers"]), int(meta["decoder-layers"])), int(meta["attention-heads"]),
        pre_norm=True, activation=FUNCTIONS[meta["nonlinearity"]])

    def linear(to, *names):
        to.weight = np.ascontiguousarray(np.concatenate([t[n + ".W"] for n in names], 1).T)
        to.bias = np.concatenate([t[n + ".b"] for n in names])

    def norm(to, name):
        to.gamma, to.beta = t[name + ".gain"], t[name + ".bias"]

    size = int(meta["hidden"])
    i, position = np.arange(size), np.arange(512)[:, None]
    angle = position / 10000.0 ** ((i // 2 * 2) / size)
    table = np.where(i % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)
    for side, to in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        to.position_encodings.encodings = table
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
    spec.decoder.projection.bias = t["output.b"]
    spec.register_source_vocabulary(SPECIAL + json.loads(meta["source_vocabulary"]))
    spec.register_target_vocabulary(SPECIAL + json.loads(meta["target_vocabulary"]))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "<unk>", "<s>", "</s>"
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.decoder_start_token, spec.config.layer_norm_epsilon = "<s>", 1e-5
    spec.validate()
    spec.optimize()
    spec.save(out)
    return "shortlist.links" in t


def attune(arguments, lines):
    """The output of `attune predict` for some lines, and its CPU time in seconds."""
    file = tempfile.NamedTemporaryFile("w", encoding="utf8")
    file.writelines(line + "\n" for line in lines)
    file.flush()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([ROOT / "build/examples/attune", "predict", "--threads", "1", "--file", file.name, *arguments],
                         text=True, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sentences")
    parser.add_argument("--rounds", type=int, default=5)
    o = parser.parse_args()
    lines = pathlib.Path(o.sentences).read_text(encoding="utf8").splitlines()[:300]
    with tempfile.TemporaryDirectory() as folder:
        listed = convert(o.model, folder)
        peers = {f"CTranslate2 {kind}": ctranslate2.Translator(folder, compute_type=kind, inter_threads=1, intra_threads=1)
                 for kind in ("float32", "int8")}
    use = ["--model", o.model]
    parsed = [json.loads(line) for line in attune([*use, "--json"], lines)[0].splitlines()]
    pieces = [one["columns"] for one in parsed]
    settings = {"length_penalty": 1, "disable_unk": True, "max_decoding_length": 100, "return_scores": True}
    found = peers["CTranslate2 float32"].translate_batch(pieces, beam_size=5, max_batch_size=64, **settings)
    same = sum(abs(a["best"][0]["score"] - b.scores[0]) <= 1e-3 for a, b in zip(parsed, found))
    print(f"{same} of {len(lines)} scores agree to 1e-3 (beam 5)")
    loading = min(attune([*use, "--format", "text"], [])[1] for _ in range(o.rounds))
    for name, beam, batch, most in ROWS:
        cpu = {}
        for _ in range(o.rounds):
            for shortlist in ([], ["--shortlist"])[: 1 + listed]:
                options = [*use, *shortlist, "--format", "text", "--beam", str(beam), "--batch", str(batch)]
                cpu.setdefault(" ".join(["attune", *shortlist]), []).append(attune(options, lines[:most])[1] - loading)
            for peer, translator in peers.items():
                start = time.process_time()
                translator.translate_batch(pieces[:most], beam_size=beam, max_batch_size=batch, **settings)
                cpu.setdefault(peer, []).append(time.process_time() - start)
        print(name + ": " + ", ".join(f"{who} {min(times):.3f}" for who, times in cpu.items()), flush=True)


if __name__ == "__main__":
    main()
