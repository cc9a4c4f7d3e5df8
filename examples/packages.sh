#!/bin/sh
# Installs the Debian packages that attune is built from, those that are missing only:
#   examples/packages.sh            what the library and most examples need
#   examples/packages.sh speech     and what examples/speech needs
#   examples/packages.sh page       and what examples/page needs
#   examples/packages.sh page-tests and what its tests need
#   examples/packages.sh tests      and what the tests and benchmarks need
#   examples/packages.sh clang      and clang, with clang-tidy
#   examples/packages.sh aarch64    and what builds and tests for 64-bit ARM
# OpenBLAS is loaded by programs that run with ATTUNE_PRODUCTS=openblas.
set -eu

packages="g++ meson ninja-build pkg-config libopenblas0-pthread libfmt-dev libhwy-dev nlohmann-json3-dev
          libicu-dev libxxhash-dev libsentencepiece-dev"
tests="libsndfile1-dev libkissfft-dev libopenmpi-dev openmpi-bin python3 python3-numpy python3-xxhash python3-matplotlib
       cmake doctest-dev libbenchmark-dev libcli11-dev"
case ${1-} in
  speech) packages="$packages libsndfile1-dev libkissfft-dev" ;;
  page) packages="$packages emscripten node-acorn" ;;
  page-tests) packages="$packages chromium python3" ;;
  tests) packages="$packages $tests" ;;
  clang) packages="$packages $tests clang-14 clang-tidy-14" ;;
  aarch64) packages="$packages $tests g++-aarch64-linux-gnu qemu-user-static pkgconf:arm64 libopenblas0-pthread:arm64
         libfmt-dev:arm64 libhwy-dev:arm64 libxxhash-dev:arm64 libicu-dev:arm64 libsndfile1-dev:arm64 libkissfft-dev:arm64" ;;
esac

missing=
for package in $packages; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  case $status in "install ok installed"*) ;; *) missing="$missing $package" ;; esac
done
if [ -z "$missing" ]; then
  echo "All packages are there."
  exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing, and neither root nor sudo is there to install them:$missing" >&2
    exit 1
  fi
  as_root=sudo
fi
echo "Installing:$missing"
case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
