#!/bin/sh
# Runs the tests with OpenBLAS as the backend of matrix products. Then compares the weights of a training that was killed and
# resumed with those of an uninterrupted one; its products are large enough for OpenBLAS. The argument is the build directory.
# Excludes tests that need bits independent of threads and rows, which OpenBLAS does not guarantee.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ATTUNE_PRODUCTS=openblas

for layer in tensor autograd nn models; do
  echo "== $layer"
  "$build/tests/$layer/${layer}_test" --minimal -tce='*thread*,simd target*'
done

# 300 sentences of 20 numbers; the target is the reversed source.
for side in source target; do
  seq 300 | awk -v side=$side '{ for (i = 0; i < 20; ++i) printf "%s%d ", side, ($1 * 7 + (side == "source" ? i : 19 - i) * $1) % 41; print "" }' |
    sed 's/ $//' >"$scratch/$side"
done
train="$build/examples/attune train $scratch/source $scratch/target --tokens words --batch 128 --steps 8 --validate-every 2
  --held-out 20 --embedding 512 --hidden 512 --attention 512 --readout 512 --threads 2"
$train --out "$scratch/whole"
$train --out "$scratch/killed" >/dev/null &
until [ -f "$scratch/killed/last.safetensors" ]; do sleep 0.1; done
kill -KILL $! && ! wait $!
$train --out "$scratch/killed" --resume
python3 tests/support/same_tensors.py "$scratch/whole/last.safetensors" "$scratch/killed/last.safetensors"
