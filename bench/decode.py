#!/usr/bin/env python3
"""Compares decoding of a Transformer with CTranslate2, on one thread: prints CPU seconds.

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

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples/python"))
from attune import read_safetensors  # noqa: E402
from to_ctranslate2 import convert  # noqa: E402

ROWS = [("beam 5, batch 64", 5, 64, None), ("greedy, batch 64", 1, 64, None),
        ("beam 5, one by one", 5, 1, 60), ("greedy, one by one", 1, 1, 60)]


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
        convert(o.model, folder)
        peers = {f"CTranslate2 {kind}": ctranslate2.Translator(folder, compute_type=kind, inter_threads=1, intra_threads=1)
                 for kind in ("float32", "int8")}
    use, listed = ["--model", o.model], "shortlist.links" in read_safetensors(o.model)[0]
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
