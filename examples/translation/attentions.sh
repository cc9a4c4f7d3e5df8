#!/bin/sh
# Trains one translation model without attention and three with it, and prints their BLEU on the validation text. All have
# the same sizes, subwords, dropout and learning rate.
#   examples/translation/attentions.sh DATA de|fr [EPOCHS [OPTION OF TRAIN ...]]
# DATA is the directory of Multi30k's tokenised files (data/task1/tok). Can be repeated: resumes an interrupted training.
set -eu
if [ $# -lt 2 ]; then
  sed -n '2,5s/^# *//p' "$0"
  exit 1
fi
data=$1 language=$2 epochs=${3-12}
shift 2
if [ $# -gt 0 ]; then shift; fi
attune=$(dirname "$0")/../../build/examples/attune
source=$data/val.lc.norm.tok.en target=$data/val.lc.norm.tok.$language
out=attentions-en-$language

train() {  # MODEL OPTION ...; later ones win
  model=$1
  shift
  echo "== $model"
  "$attune" train --model "$model" --epochs "$epochs" --out "$out/$model" --resume --tokens bpe --pieces 10000 \
    --joint yes --tied all --cell gru --embedding-dropout 0.3 --readout-dropout 0.5 --average 0.999 --rate 0.001 \
    --halve 2 --validate-every 500 --bleu none --beam 4 \
    --train "$data/train.lc.norm.tok.en" --train-target "$data/train.lc.norm.tok.$language" \
    --valid "$source" --valid-target "$target" "$@"
}

train encoder-decoder "$@"
train bahdanau --annotation-dropout 0.5 "$@"
train nematus --annotation-dropout 0.5 "$@"
train luong --annotation-dropout 0.5 --encoder-layers 1 --decoder-layers 1 --reading bidirectional "$@"

set --
for model in encoder-decoder bahdanau nematus luong; do
  set -- "$@" --model "$out/$model"
done
"$attune" compare "$source" "$target" "$@"
