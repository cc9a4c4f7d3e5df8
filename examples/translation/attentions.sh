#!/bin/sh
# Trains one translator without attention and six with one kind each, and prints their worth on the
# validation text. Beside attention they are alike: a bidirectional GRU, a GRU, and multi30k.conf.
#   examples/translate/recipes/attentions.sh DATA de|fr [EPOCHS [OPTION OF TRAIN ...]]
# DATA has the dataset's tokenised files (data/task1/tok). Repeated, it goes on where it stopped.
set -eu
if [ $# -lt 2 ]; then
  sed -n '2,5s/^# *//p' "$0"
  exit 1
fi
data=$1 language=$2 epochs=${3-12}
shift 2
if [ $# -gt 0 ]; then shift; fi
recipes=$(dirname "$0")
translate=$recipes/../../../build/examples/translate
source=$data/val.lc.norm.tok.en target=$data/val.lc.norm.tok.$language
out=attentions-en-$language

train() {  # NAME OPTION ...; later ones win
  name=$1
  shift
  echo "== $name"
  "$translate" train --config "$recipes/multi30k.conf" --epochs "$epochs" --out "$out/$name" --resume \
    --encoder-layers 1 --decoder-layers 1 --encoder-cell gru --decoder-cell gru --reading bidirectional \
    --source "$data/train.lc.norm.tok.en" --target "$data/train.lc.norm.tok.$language" \
    --valid-source "$source" --valid-target "$target" "$@"
}

train none --model encoder-decoder "$@"
train additive --model bahdanau "$@"
train dot --model luong --start mean --score dot "$@"
train general --model luong --start mean "$@"
train general-unfed --model luong --start mean --input-feeding no "$@"
train concat --model luong --start mean --score concat "$@"
train local-p --model luong --start mean --window local-p "$@"

set --
for name in none additive dot general general-unfed concat local-p; do
  set -- "$@" "$out/$name/best.safetensors"
done
"$translate" compare "$source" "$target" --bleu none "$@"
