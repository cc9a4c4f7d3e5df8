#!/bin/sh
# Runs the tests with OpenBLAS as the backend of matrix products. Then compares the weights of a training that was killed and
# resumed with those of an uninterrupted one; its products are large enough for OpenBLAS. Arguments: the build directory; `short`
# runs only tests of products and gradients, and four steps of training. Exit status 77: OpenBLAS is not installed.
# Excludes tests that need bits independent of threads and rows, or exact long sums, which OpenBLAS does not guarantee.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
python3 -c 'import ctypes; ctypes.CDLL("libopenblas.so.0")' 2>/dev/null || exit 77
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ATTUNE_PRODUCTS=openblas

steps=8
if [ "${2-}" = short ]; then
  steps=4
  "$build/tests/tensor/tensor_test" --minimal -tc='gemm*,matmul*,add_product*,batched_matmul*,backends*' -tce='*thread*,matmul: long sums*'
  "$build/tests/autograd/autograd_test" --minimal -tc='backward*,matmul*,Ops: gradients*'
else
  for layer in tensor autograd nn models; do
    echo "== $layer"
    "$build/tests/$layer/${layer}_test" --minimal -tce='*thread*,simd target*,matmul: long sums*'
  done
fi

# 300 sentences of 20 numbers; the target is the reversed source.
for side in source target; do
  seq 300 | awk -v side=$side '{ for (i = 0; i < 20; ++i) printf "%s%d ", side, ($1 * 7 + (side == "source" ? i : 19 - i) * $1) % 41; print "" }' |
    sed 's/ $//' >"$scratch/$side"
done
train="$build/examples/attune train $scratch/source $scratch/target --tokens words --batch 128 --steps $steps --validate-every 2
  --held-out 20 --embedding 512 --hidden 512 --attention 512 --readout 512 --threads 2"
$train --out "$scratch/whole" | tee "$scratch/output"
grep -q 'OpenBLAS (' "$scratch/output"  # the backend that computed the products
[ $steps = 8 ] || exit 0
$train --out "$scratch/killed" >/dev/null &
until [ -f "$scratch/killed/last.safetensors" ]; do sleep 0.1; done
kill -KILL $! && ! wait $!
$train --out "$scratch/killed" --resume
python3 tests/support/same_tensors.py "$scratch/whole/last.safetensors" "$scratch/killed/last.safetensors"
