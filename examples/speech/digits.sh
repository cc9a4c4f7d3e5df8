#!/bin/sh
# On a fresh Debian 12, trains a model that recognises spoken digits:
#   examples/speech/digits.sh DATA
# DATA is the directory with recordings/0_george_0.wav
# (github.com/Jakobovski/free-spoken-digit-dataset). Installs packages, builds into build/, and writes
# lists, weights and an attention heat map to build/speech. Can be repeated; keeps existing weights.
set -eu
if [ $# -ne 1 ] || [ ! -d "$1/recordings" ]; then
  echo "usage: $0 DATA, where DATA contains recordings/" >&2
  exit 1
fi
data=$(cd "$1" && pwd)/recordings
cd "$(dirname "$0")/../.."
out=build/speech

echo "== 1/3  Packages"
examples/packages.sh speech

echo "== 2/3  Building into build/ (some minutes the first time)"
examples/build.sh speech -Dspeech=enabled

echo "== 3/3  Training a model on strings of 1 to 7 digits (twelve minutes on one CPU)"
mkdir -p $out
# DIGIT_SPEAKER_NUMBER.wav: numbers 5 to 9 are for validation, numbers from 10 for training.
ls "$data" | awk -F '[_.]' -v OFS='\t' -v data="$data" -v out=$out '
  BEGIN { split("zero one two three four five six seven eight nine", words, " ") }
  NF == 4 && $3 >= 5 { print data "/" $0, words[$1 + 1], $2 > (out ($3 < 10 ? "/valid.tsv" : "/train.tsv")) }'
model=$out/digits.safetensors
if [ ! -f $model ]; then
  build/examples/speech train $out/train.tsv $out/valid.tsv --model $out/training.safetensors --join 7 --bf16
  mv $out/training.safetensors $model
  mv $out/training.safetensors.svg $out/attention.svg
fi
build/examples/speech evaluate $out/valid.tsv --model $model --join 12

echo "Try a recording:  build/examples/speech recognise FILE.wav --model $model"
