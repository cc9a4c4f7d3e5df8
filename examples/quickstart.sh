#!/bin/sh
# From a fresh Debian 12 to a trained attention model and a page that shows what it reads: installs
# packages, builds into build/, and trains examples/dates.cpp, which writes build/quickstart/; where emscripten is installed,
# a page that runs the model, too.
# Safe to repeat: packages and objects that are there stay; the training, half a minute, starts again.
set -eu
cd "$(dirname "$0")/.."

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building the library and examples/dates.cpp into build/ (a minute or two, the first time)"
examples/build.sh dates

echo "== 3/3  Training a model on English dates (half a minute on two cores)"
build/examples/dates

if command -v em++ >/dev/null; then
  echo "== A page in which the model writes dates of your own, in any browser (some minutes, the first time)"
  examples/page/build.sh
  examples/build.sh attune
  build/examples/attune report --model build/quickstart --live build/page/attention.html --out build/quickstart/live.html
fi
