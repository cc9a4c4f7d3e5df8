#!/bin/sh
# From a fresh Debian 12 to a model that hears spoken digits:
#   examples/speech/digits.sh DATA           trains a model, measures it, draws what it attended to
#   examples/speech/digits.sh DATA --table   four kinds of attention, three seeds (an hour)
# DATA is the directory with recordings/0_george_0.wav
# (github.com/Jakobovski/free-spoken-digit-dataset). Installs packages and builds into build/. Safe
# to repeat: what is there is not done again, and a training that was interrupted goes on.
set -eu
if [ $# -lt 1 ] || [ "${2---table}" != --table ] || [ ! -d "$1/recordings" ]; then
  echo "usage: $0 DATA [--table], where DATA has recordings/" >&2
  exit 1
fi
data=$(cd "$1" && pwd)/recordings
table=${2-}
cd "$(dirname "$0")/../.."
out=build/speech

echo "== 1/3  Packages"
examples/packages.sh speech

echo "== 2/3  Building into build/ (a minute or two, the first time)"
examples/build.sh speech -Dspeech=enabled

if [ "$table" = --table ]; then
  echo "== 3/3  Training every model of the table"
  exec build/examples/speech compare --digits "$data" --precision bf16 --out $out/table
fi
echo "== 3/3  Training a model on strings of 1 to 7 digits (ten minutes on two cores)"
build/examples/speech train --digits "$data" --precision bf16 --out $out/model --resume
build/examples/speech evaluate --digits "$data" --model $out/model/best.safetensors
build/examples/speech report --model $out/model/best.safetensors >/dev/null

echo "Try a recording:  build/examples/speech recognise FILE.wav --model $out/model/best.safetensors"
echo "The report:       $(pwd)/$out/model/report.html"
