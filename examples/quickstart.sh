#!/bin/sh
# On a fresh Debian 12, trains an attention model and writes a page with its attention weights:
# installs packages, builds into build/, and runs examples/dates.cpp, which writes build/quickstart/.
# If emscripten is installed, also builds a page that runs the model.
# Can be repeated: skips installed packages and up-to-date objects, and repeats the training.
set -eu
cd "$(dirname "$0")/.."

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building the library and examples/dates.cpp into build/ (about four minutes on two cores the first time)"
examples/build.sh dates

echo "== 3/3  Training a model on English dates (half a minute on two cores)"
build/examples/dates

if command -v em++ >/dev/null; then
  echo "== Building a page that runs the model in a browser (some minutes the first time)"
  examples/page/build.sh
fi
