#!/bin/sh
# Builds a target of examples/ into build/, once examples/packages.sh has been run:
#   examples/build.sh NAME [OPTION...]      options are meson's
set -eu
cd "$(dirname "$0")/.."
target=examples/$1
shift
if [ ! -f build/build.ninja ]; then
  mkdir -p build
  meson setup build -Dtests=disabled -Dbench=disabled "$@" >build/setup.log || { cat build/setup.log; exit 1; }
elif [ $# -gt 0 ]; then
  meson configure build --clearcache "$@"
  meson setup --reconfigure build >build/setup.log || { cat build/setup.log; exit 1; }
fi
ninja -C build "$target"
