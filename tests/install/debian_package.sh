#!/bin/sh
# Builds Debian packages of the committed tree with tests/install/debian, as its debian/, and checks what is in them.
set -eu
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/attune"
git archive HEAD | tar -x -C "$scratch/attune"
cp -r tests/install/debian "$scratch/attune/debian"

cd "$scratch/attune"
dpkg-buildpackage -us -uc -b
cd ..
lintian --fail-on error,warning ./*.changes
for package in libattune0 libattune-dev; do
  dpkg-deb -x "$package"_*.deb installed
done
for path in include/attune/attune.hpp include/attune/version.hpp 'lib/*/libattune.so.0' 'lib/*/libattune.a' \
  'lib/*/pkgconfig/attune.pc' 'lib/*/cmake/attune/attune-config.cmake'; do
  ls installed/usr/$path
done
