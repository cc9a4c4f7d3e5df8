#!/bin/sh
# For each instruction set that this CPU and the build support: runs the tests, and checks that a short
# training has the same weights with one to four threads. The weights must also be the same for all
# instruction sets with fused multiply-adds, and if these alternate within a training.
# The argument is the build directory.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The error message about an unknown name lists the instruction sets.
targets=$(ATTUNE_TARGET=none "$build/examples/attune" predict --model "$scratch/none" x 2>&1 |
  sed -n "s/.*'none' is not an instruction set of this CPU and build, which have //p" | tr -d ,)
echo "Instruction sets: ${targets:?the message lists none}"

# Numbers; the target is the number with its digits reversed.
seq 1000 2000 | awk '{ n = $1 * 7919; back = ""; for (i = length(n); i > 0; --i) back = back substr(n, i, 1)
                       print n "\t" back }' >"$scratch/pairs.tsv"

# train NAME STEPS OPTION...: the rate is constant, so the weights of a step do not depend on STEPS.
train() {
  out=$scratch/$1 steps=$2
  shift 2
  "$build/examples/attune" train "$scratch/pairs.tsv" --schedule constant --out "$out" --steps "$steps" "$@"
}

for target in $targets; do
  export ATTUNE_TARGET="$target"
  for layer in tensor autograd nn models; do
    echo "== $target: $layer"
    "$build/tests/$layer/${layer}_test" --minimal
  done
  for threads in 1 2 3 4; do
    train "$threads" 50 --threads "$threads"
  done
  python3 tests/support/same_tensors.py "$scratch"/[1-4]/last.safetensors
  mv "$scratch/1" "$scratch/$target"
  rm -r "$scratch"/[2-4]
done

# Resume with another instruction set with fused multiply-adds every ten steps.
set -- $(echo "$targets" | grep -o 'avx[^ ]*')
for steps in 10 20 30 40 50; do
  export ATTUNE_TARGET="$1"
  train avx-all $steps --resume
  set -- "$@" "$1"
  shift
done
python3 tests/support/same_tensors.py "$scratch"/avx*/last.safetensors
