#!/bin/sh
# From a fresh Debian 12 to forecasts of loads and oil temperature of an electricity transformer:
#   examples/forecast/ett.sh DATA           trains a model, measures it, draws what it attended to
#   examples/forecast/ett.sh DATA --table   all models, seven horizons, three seeds (an hour)
# DATA is the directory with ETTh1.csv (github.com/zhouhaoyi/ETDataset, ETT-small). Installs
# packages and builds into build/. Safe to repeat: what is there is not done again, and a training
# that was interrupted goes on.
set -eu
if [ $# -lt 1 ] || [ "${2---table}" != --table ] || [ ! -f "$1/ETTh1.csv" ]; then
  echo "usage: $0 DATA [--table], where DATA has ETTh1.csv" >&2
  exit 1
fi
data=$(cd "$1" && pwd)
table=${2-}
cd "$(dirname "$0")/../.."
out=build/forecast

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building into build/ (a minute or two, the first time)"
examples/build.sh forecast

if [ "$table" = --table ]; then
  echo "== 3/3  Training every model of the table"
  exec build/examples/forecast compare --csv "$data/ETTh1.csv" --protocol ett --out $out/table
fi
echo "== 3/3  Training a model that reads 30 days and forecasts 4 (a minute on two cores)"
build/examples/forecast train --csv "$data/ETTh1.csv" --protocol ett --out $out/model --resume
build/examples/forecast evaluate --model $out/model/best.safetensors
build/examples/forecast report --model $out/model/best.safetensors >/dev/null

echo "What comes next: build/examples/forecast predict $data/ETTh1.csv --model $out/model/best.safetensors"
echo "The report:      $(pwd)/$out/model/report.html"
