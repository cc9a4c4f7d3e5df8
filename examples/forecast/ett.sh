#!/bin/sh
# On a fresh Debian 12, forecasts loads and oil temperature of an electricity transformer:
#   examples/forecast/ett.sh DATA [--OPTION VALUE ...]
# DATA is the directory with ETTh1.csv (github.com/zhouhaoyi/ETDataset, ETT-small); for options, such
# as --horizon 24, see `forecast --help`. Installs packages, builds into build/ and trains.
set -eu
if [ $# -lt 1 ] || [ ! -f "$1/ETTh1.csv" ]; then
  echo "usage: $0 DATA [--OPTION VALUE ...], where DATA contains ETTh1.csv" >&2
  exit 1
fi
data=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/../.."

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building into build/ (some minutes the first time)"
examples/build.sh forecast

echo "== 3/3  Training a model that reads 30 days and forecasts 4 (a minute on two cores)"
mkdir -p build/forecast
weights=build/forecast/best.safetensors
# As in published tables: training on 12 months of 30 days, validation on 4, test on 4.
build/examples/forecast train "$data/ETTh1.csv" --parts 8640,2880,2880 --weights $weights "$@"
