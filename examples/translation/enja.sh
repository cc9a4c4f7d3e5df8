#!/bin/sh
# Trains an English-Japanese translation model on small_parallel_enja with enja.conf, evaluates it on
# dev.en with greedy search, and prints the attention weights of a proverb and four sentences:
#   examples/translation/enja.sh DATA [SEED [OPTION OF TRAIN ...]]
# DATA contains train.en, train.ja, dev.en and dev.ja. Can be repeated: resumes an interrupted training.
set -eu
if [ $# -lt 1 ]; then
  sed -n '2,5s/^# *//p' "$0"
  exit 1
fi
data=$1 seed=${2-1}
shift
if [ $# -gt 0 ]; then shift; fi
recipes=$(dirname "$0")
attune=$recipes/../../build/examples/attune
out=enja-$seed

"$attune" train --config "$recipes/enja.conf" --seed "$seed" --out "$out" --resume \
  --train "$data/train.en" --train-target "$data/train.ja" \
  --valid "$data/dev.en" --valid-target "$data/dev.ja" "$@"
"$attune" evaluate --model "$out/best.safetensors" --bleu none --beam 1 "$data/dev.en" "$data/dev.ja"
{
  echo "better late than never ."
  sed -n 1,4p "$data/dev.en"
} > "$out/shown.en"
"$attune" align --model "$out/best.safetensors" "$out/shown.en"
