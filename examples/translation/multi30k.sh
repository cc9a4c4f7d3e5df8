#!/bin/sh
# Trains a translation model from English on Multi30k, and evaluates it on the test set of 2016:
#   [RECIPE=transformer ALPHA=0.8] examples/translation/multi30k.sh DATA de|fr [SEED [OPTION OF TRAIN ...]]
# Uses RECIPE.conf in the directory of this script (multi30k.conf: recurrent) and the length penalty ALPHA. DATA is the directory
# of the tokenised files (data/task1/tok). Can be repeated: resumes an interrupted training.
set -eu
if [ $# -lt 2 ]; then
  sed -n '2,5s/^# *//p' "$0"
  exit 1
fi
data=$1 language=$2 seed=${3-1}
shift 2
if [ $# -gt 0 ]; then shift; fi
recipe=${RECIPE-multi30k}
recipes=$(dirname "$0")
attune=$recipes/../../build/examples/attune
out=$recipe-en-$language-$seed

"$attune" train --config "$recipes/$recipe.conf" --seed "$seed" --out "$out" --resume \
  --train "$data/train.lc.norm.tok.en" --train-target "$data/train.lc.norm.tok.$language" \
  --valid "$data/val.lc.norm.tok.en" --valid-target "$data/val.lc.norm.tok.$language" "$@"
"$attune" evaluate --model "$out/best.safetensors" --bleu none --beam 12 --length-penalty "${ALPHA-1}" \
  "$data/test_2016_flickr.lc.norm.tok.en" "$data/test_2016_flickr.lc.norm.tok.$language"
