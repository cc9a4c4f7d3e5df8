#!/bin/sh
# Builds a target of examples/ into build/, once examples/packages.sh has been run: examples/build.sh NAME
set -eu
cd "$(dirname "$0")/.."
if [ ! -f build/build.ninja ]; then
  mkdir -p build
  meson setup build -Dtests=disabled -Dbench=disabled >build/setup.log || { cat build/setup.log; exit 1; }
fi
ninja -C build "examples/$1"
