#!/bin/sh
# The tests under each engine of matrix products, and under each trainings of sizes that BLAS takes:
# the same weights with one thread, with two, and killed and resumed; the same words whatever the
# batch of sentences is. The argument is the build directory.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sizes="--embedding 512 --hidden 512 --attention 512 --readout 512"

# 300 sentences of 20 numbers, to be read backwards.
for side in source target; do
  seq 300 | awk -v side=$side '{ for (i = 0; i < 20; ++i) printf "%s%d ", side, ($1 * 7 + (side == "source" ? i : 19 - i) * $1) % 41; print "" }' |
    sed 's/ $//' >"$scratch/$side"
done
texts="$scratch/source $scratch/target --tokens words"
train="$build/examples/attune train $texts $sizes --batch 128 --steps 8 --validate-every 2 --held-out 20"

for engine in openblas attune; do
  export ATTUNE_PRODUCTS="$engine"
  for layer in tensor autograd nn models; do
    echo "== $engine: $layer"
    "$build/tests/$layer/${layer}_test" --minimal
  done

  echo "== $engine: the same weights"
  $train --out "$scratch/one" --threads 1
  $train --out "$scratch/two" --threads 2
  $train --out "$scratch/killed" --threads 2 >/dev/null &
  until [ -f "$scratch/killed/last.safetensors" ]; do sleep 0.1; done
  kill -KILL $! && ! wait $!
  $train --out "$scratch/killed" --threads 2 --resume
  python3 tests/support/same_tensors.py "$scratch/one/last.safetensors" "$scratch/two/last.safetensors" \
    "$scratch/killed/last.safetensors"
  rm -r "$scratch/one" "$scratch/two" "$scratch/killed"

  echo "== $engine: the same words"
  "$build/examples/attune" train $texts $sizes --out "$scratch/text" --epochs 1 --batch 100 \
    --valid "$scratch/source" --valid-target "$scratch/target"
  for batch in 1 7 64; do
    "$build/examples/attune" predict --format text --model "$scratch/text/last.safetensors" --batch $batch \
      <"$scratch/source" >"$scratch/words.$batch"
  done
  cmp "$scratch/words.1" "$scratch/words.7"
  cmp "$scratch/words.1" "$scratch/words.64"
  rm -r "$scratch/text"
done
