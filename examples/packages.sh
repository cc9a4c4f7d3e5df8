#!/bin/sh
# Installs missing Debian packages that attune needs:
#   examples/packages.sh            for the library and most examples
#   examples/packages.sh speech     also for examples/speech
#   examples/packages.sh page       also for examples/page
#   examples/packages.sh page-tests also for the tests of examples/page
#   examples/packages.sh tests      also for tests and benchmarks
#   examples/packages.sh format     also for .ci/run
#   examples/packages.sh full       also for .ci/full
#   examples/packages.sh clang      also clang and clang-tidy
#   examples/packages.sh aarch64    also for builds and tests for 64-bit ARM
# Programs load OpenBLAS only if ATTUNE_PRODUCTS=openblas is set.
set -eu

packages="g++ meson ninja-build pkg-config libopenblas0-pthread libfmt-dev libhwy-dev nlohmann-json3-dev
          libicu-dev libxxhash-dev libsentencepiece-dev"
tests="libsndfile1-dev libkissfft-dev libopenmpi-dev openmpi-bin python3 python3-numpy python3-xxhash python3-matplotlib
       cmake doctest-dev libbenchmark-dev libcli11-dev"
case ${1-} in
  "") ;;
  speech) packages="$packages libsndfile1-dev libkissfft-dev" ;;
  page) packages="$packages emscripten node-acorn" ;;
  page-tests) packages="$packages chromium python3" ;;
  tests) packages="$packages $tests" ;;
  format) packages="$packages $tests clang-format" ;;
  full) packages="$packages $tests spin gcovr doxygen build-essential debhelper lintian python3-torch" ;;
  clang) packages="$packages $tests clang-14 clang-tidy-14" ;;
  aarch64) packages="$packages $tests g++-aarch64-linux-gnu qemu-user-static pkgconf:arm64 libopenblas0-pthread:arm64
         libfmt-dev:arm64 libhwy-dev:arm64 libxxhash-dev:arm64 libicu-dev:arm64 libsndfile1-dev:arm64 libkissfft-dev:arm64" ;;
  *) echo "$0: unknown set '$1', expected speech, page, page-tests, tests, format, full, clang or aarch64" >&2; exit 1 ;;
esac

missing=
for package in $packages; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  case $status in "install ok installed"*) ;; *) missing="$missing $package" ;; esac
done
if [ -z "$missing" ]; then
  echo "All packages are installed."
  exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing, and installing them needs root or sudo:$missing" >&2
    exit 1
  fi
  as_root=sudo
fi
echo "Installing:$missing"
case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
