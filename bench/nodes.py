#!/usr/bin/env python3
"""Measures the parallel efficiency of training on several machines, by network speed.

    bench/nodes.py -- --epochs 1 --train train.en --train-target train.de \\
        --valid val.en --valid-target val.de

Runs `attune train` with the options after `--`. One process trains with one shard and with two shards
of --batch sentences, which gives the times of a shard and of an update. Then two processes train with
one shard each. They run on two emulated nodes: Linux network namespaces with links of the rates
--links. The emulation needs root, ip, tc and mpirun (Open MPI).

Prints measured and computed speeds and efficiencies, and draws the computed efficiency by number of
nodes. The model of the time of an update with n nodes:

    t(n) = c + u + o + 2 (n - 1) / n * bytes / rate

c: seconds for a shard. u: seconds for the optimiser's update. o: other seconds of two nodes on the
fastest link (copies and sums of gradients). bytes: size of the gradients. Every node has a whole
batch, so n nodes process n batches in each update.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from chart import chart
from scaling import count

ROOT = pathlib.Path(__file__).resolve().parent.parent
NODES = [1, 2, 4, 8, 16]
AGENT = '#!/bin/sh\nhost=$1\nshift\nexec ip netns exec "attune${host##*.}" sh -c "$*"\n'  # instead of ssh


def parse():
    def numbers(text):
        return [float(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=numbers, default=[1, 10, 25], metavar="GBIT,...", help="rates of the links in Gbit/s (default: 1,10,25)")
    parser.add_argument("--rounds", type=count, default=3, help="repetitions of all runs (default: 3)")
    parser.add_argument("--batch", type=count, default=64, help="sentences per node and update (default: 64)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", metavar="DIR", help="build directory (default: build)")
    parser.add_argument("--svg", type=pathlib.Path, metavar="FILE", help="plot to write (default: nodes.svg in the build directory)")
    parser.add_argument("training", nargs="+", help="options of attune train, including its length")
    return parser.parse_args()


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


@contextlib.contextmanager
def network(nodes, gbit, directory):
    """Creates nodes 10.77.0.1, ... on one switch. Yields the mpirun command that uses them."""
    with contextlib.ExitStack() as stack:
        call(*"ip link add attune type bridge".split())
        stack.callback(call, *"ip link del attune".split())
        call(*"ip addr add 10.77.0.254/24 dev attune".split())
        call(*"ip link set attune up".split())
        for i in range(1, nodes + 1):
            inside = f"ip netns exec attune{i}"
            call(*f"ip netns add attune{i}".split())
            stack.callback(call, *f"ip netns del attune{i}".split())
            call(*f"ip link add attune{i} type veth peer name eth0 netns attune{i}".split())
            stack.callback(call, *f"ip link del attune{i}".split())  # deleting the namespace deletes it with a delay
            call(*f"ip link set attune{i} master attune up".split())
            call(*f"{inside} ip addr add 10.77.0.{i}/24 dev eth0".split())
            for device in ("eth0", "lo"):
                call(*f"{inside} ip link set {device} up".split())
            limit = f"root tbf rate {gbit}gbit burst 2mb latency 20ms"
            call(*f"tc qdisc add dev attune{i} {limit}".split())
            call(*f"{inside} tc qdisc add dev eth0 {limit}".split())
        agent = pathlib.Path(directory) / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        own = "10.77.0.0/24"
        # With binding, each node would bind its worker to the first CPU, which all nodes share here.
        yield ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self",
               "--mca", "btl_tcp_if_include", own, "--mca", "oob_tcp_if_include", own,
               "--host", ",".join(f"10.77.0.{i}" for i in range(1, nodes + 1)), "-n", nodes]


def train(options, shards, launcher=()):
    """Returns words per second, seconds per update, and the number of parameters."""
    with tempfile.TemporaryDirectory() as out:
        command = [*launcher, options.build / "examples/attune", "train", "--out", out, "--threads", 1, "--shards",
                   shards, "--batch", shards * options.batch, "--validate-every", 10**6, *options.training]
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"nodes: status {done.returncode}\n{done.stderr}")
        parameters = int(re.search(r"(\d+) parameters", done.stdout)[1])
        lines = [json.loads(line) for line in (pathlib.Path(out) / "log.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["step"] % 50 == 0]
    if len(lines) < 3:
        raise SystemExit("nodes: a run had fewer than 150 updates; train for longer")
    seconds = [after["seconds"] - before["seconds"] for before, after in zip(lines, lines[1:])]
    words = sum(line["tokens_per_s"] * passed for line, passed in zip(lines[1:], seconds))
    return words / sum(seconds), sum(seconds) / len(seconds) / 50, parameters


def measure(options):
    """Run -> the median of each result of train(). A run is (shards, link); link None: one process."""
    runs = [(1, None), (2, None), *((2, link) for link in options.links)]
    results = {run: [] for run in runs}
    for number in range(options.rounds):
        for shards, link in runs:
            name = f"{shards} shards in one process" if link is None else f"2 nodes, {link:g} Gbit/s"
            print(f"round {number + 1} of {options.rounds}: {name}", end="", file=sys.stderr, flush=True)
            if link is None:
                one = train(options, shards)
            else:
                with tempfile.TemporaryDirectory() as directory, network(2, link, directory) as launcher:
                    one = train(options, shards, launcher)
            results[shards, link].append(one)
            print(f": {one[0]:.0f} words/s, {1000 * one[1]:.0f} ms", file=sys.stderr, flush=True)
    return {run: [statistics.median(column) for column in zip(*some)] for run, some in results.items()}


def main():
    options = parse()
    if os.geteuid() != 0:
        raise SystemExit("nodes: creating network namespaces needs root")
    results = measure(options)
    (speed, one, parameters), (_, two, _) = results[1, None], results[2, None]
    shard, update = two - one, 2 * one - two
    size = 4 * parameters  # gradients are f32

    def sending(nodes, gbit):
        return 2 * (nodes - 1) / nodes * size * 8 / (gbit * 1e9)

    fastest = max(options.links)
    other = max(0, results[2, fastest][1] - one - sending(2, fastest))

    def efficiency(nodes, gbit, sentences=options.batch):
        """By the model; the time of a shard is proportional to its sentences, other times are constant."""
        alone = shard * sentences / options.batch + update
        return alone / (alone + (other + sending(nodes, gbit) if nodes > 1 else 0))

    print(f"{parameters:.0f} parameters, {size / 1e6:.1f} MB of gradients; a shard {1000 * shard:.0f} ms, "
          f"an update {1000 * update:.0f} ms, other {1000 * other:.0f} ms, {speed:.0f} words/s on one node\n")
    print("link, Gbit/s  words/s of 2 nodes  efficiency  computed")
    for link in options.links:
        words = results[2, link][0]
        print(f"{link:12g}  {words:18.0f}  {words / speed / 2:10.2f}  {efficiency(2, link):8.2f}")
    print("\ncomputed efficiency\nlink, Gbit/s   sentences per node" + "".join(f"{n:3} nodes" for n in NODES[1:]))
    for link in options.links:
        for sentences in (options.batch // 4, options.batch, 4 * options.batch):
            print(f"{link:12g}  {sentences:19}" + "".join(f"{efficiency(n, link, sentences):9.2f}" for n in NODES[1:]))
    path = options.svg or options.build / "nodes.svg"
    lines = {f"{link:g} Gbit/s": [(math.log2(n), efficiency(n, link)) for n in NODES] for link in options.links}
    path.write_text(chart(lines, "Computed efficiency", "nodes", "speed relative to independent nodes",
                          [(math.log2(n), str(n)) for n in NODES], [(i / 5, f"{i / 5:.1f}") for i in range(6)]))
    print(f"plot: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
