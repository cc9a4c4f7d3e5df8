#!/bin/sh
# Trains one translator without attention and six with one kind each, and prints their worth on the
# validation text. Beside attention they are alike: a bidirectional GRU, a GRU, and multi30k.conf.
#   examples/translation/attentions.sh DATA de|fr [EPOCHS [OPTION OF TRAIN ...]]
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
attune=$recipes/../../build/examples/attune
source=$data/val.lc.norm.tok.en target=$data/val.lc.norm.tok.$language
out=attentions-en-$language

train() {  # NAME OPTION ...; later ones win
  name=$1
  shift
  echo "== $name"
  "$attune" train --config "$recipes/multi30k.conf" --epochs "$epochs" --out "$out/$name" --resume \
    --encoder-layers 1 --decoder-layers 1 --encoder-cell gru --decoder-cell gru --reading bidirectional \
    --train "$data/train.lc.norm.tok.en" --train-target "$data/train.lc.norm.tok.$language" \
    --valid "$source" --valid-target "$target" "$@"
}

before="--start bridge --readout-kind maxout"
after="--attend after --start mean --readout-kind attentional --input-feeding yes"
train none $before --attend last-state "$@"
train additive $before --attend before "$@"
train dot $after --score dot "$@"
train general $after --score general "$@"
train general-unfed $after --score general --input-feeding no "$@"
train concat $after --score concat "$@"
train local-p $after --score general --window local-p "$@"

set --
for name in none additive dot general general-unfed concat local-p; do
  set -- "$@" --model "$out/$name"
done
"$attune" compare "$source" "$target" "$@"
