#!/bin/sh
# Trains a translation model from English on Multi30k, and evaluates it on the test set of 2016:
#   [RECIPE=transformer ALPHA=0.8] [OUT=DIR] [TEACHERS="DIR ..."] examples/translation/multi30k.sh DATA de|fr [SEED] [OPTION OF TRAIN ...]
# Uses RECIPE.conf in the directory of this script (multi30k.conf: recurrent) and the length penalty ALPHA, and writes to OUT. DATA
# is the directory of the tokenised files (data/task1/tok). Can be repeated: resumes an interrupted training.
# TEACHERS are output directories of earlier trainings. Their ensemble translates the training text, and the new model learns from
# each sentence twice, with its reference and with its translation, in as many updates as without TEACHERS.
set -eu
if [ $# -lt 2 ]; then
  sed -n '2,7s/^# *//p' "$0"
  exit 1
fi
data=$1 language=$2 seed=1
shift 2
case ${1-} in [0-9]*) seed=$1 && shift ;; esac
recipe=${RECIPE-multi30k}
recipes=$(dirname "$0")
attune=$recipes/../../build/examples/attune
out=${OUT-${TEACHERS:+distilled-}$recipe-en-$language-$seed}
source=$data/train.lc.norm.tok.en
target=$data/train.lc.norm.tok.$language

if [ -n "${TEACHERS-}" ]; then
  if [ ! -f "$out/train.$language" ]; then
    echo "translating $source"
    mkdir -p "$out"
    cat "$source" "$source" >"$out/train.en"
    cat "$target" >"$out/train.part"
    "$attune" predict $(printf -- '--model %s ' $TEACHERS) --file "$source" --format text >>"$out/train.part"
    mv "$out/train.part" "$out/train.$language"
  fi
  source=$out/train.en target=$out/train.$language
fi
"$attune" train --config "$recipes/$recipe.conf" --seed "$seed" --out "$out" --resume \
  --train "$source" --train-target "$target" \
  --valid "$data/val.lc.norm.tok.en" --valid-target "$data/val.lc.norm.tok.$language" "$@"
"$attune" evaluate --model "$out" --bleu none --beam 12 --length-penalty "${ALPHA-1}" \
  "$data/test_2016_flickr.lc.norm.tok.en" "$data/test_2016_flickr.lc.norm.tok.$language"
