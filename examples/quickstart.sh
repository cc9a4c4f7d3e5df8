#!/bin/sh
# From a fresh Debian 12 to a trained attention model and a page that shows what it looks at:
# installs packages, builds into build/, trains, and writes model and report to build/quickstart/.
# Safe to repeat: what is there is not done again, and a training that was interrupted goes on.
set -eu
cd "$(dirname "$0")/.."
out=build/quickstart

echo "== 1/4  Packages"
examples/packages.sh

echo "== 2/4  Building into build/ (a minute or two, the first time)"
examples/build.sh dates

echo "== 3/4  Training a model on English dates (about half a minute on two cores)"
build/examples/dates train --out $out --resume

echo "== 4/4  Three dates: what the model writes down the side, what it reads along the top"
build/examples/dates predict --model $out/best.safetensors --attention always \
  "Wednesday June 27 2001" "16.01.75" "3 May 79"
build/examples/dates report --model $out/best.safetensors >/dev/null

echo "Try your own:   build/examples/dates predict --model $out/best.safetensors \"May 3, 1979\""
echo "The report:     $(pwd)/$out/report.html"
