#!/bin/sh
# Builds a target of examples/ into build/. Run examples/packages.sh before.
#   examples/build.sh NAME [OPTION...]      options of meson setup
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "usage: examples/build.sh NAME [OPTION...]" >&2; exit 1; }
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
