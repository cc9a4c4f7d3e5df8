#!/bin/sh
# Installs missing packages that attune needs, on Debian 12 and 13, Ubuntu 22.04 and 24.04, Fedora, Arch, Alpine and macOS
# (Homebrew):
#   examples/packages.sh            for the library and most examples
#   examples/packages.sh speech     also for examples/speech
#   examples/packages.sh tests      also for tests and benchmarks
# On Debian 12 only:
#   examples/packages.sh page       also for examples/page
#   examples/packages.sh page-tests also for the tests of examples/page
#   examples/packages.sh format     also for .ci/run
#   examples/packages.sh full       also for .ci/full
#   examples/packages.sh clang      also clang and clang-tidy
#   examples/packages.sh aarch64    also for builds and tests for 64-bit ARM
#   examples/packages.sh release    also for .ci/release
#   examples/packages.sh wraps      unpacks Debian's sources of the libraries into subprojects/, for builds that use meson's
#                                   wraps where only Debian's packages can be downloaded
# With --print before the set, prints the commands and runs nothing. Meson builds required libraries without a package from
# subprojects/. Programs load OpenBLAS only if ATTUNE_PRODUCTS=openblas is set.
set -eu
cd "$(dirname "$0")/.."

print=
if [ "${1-}" = --print ]; then
  print=yes
  shift
fi
wanted=${1-}

ID=unknown VERSION_ID=
release=${ATTUNE_OS_RELEASE:-/etc/os-release} # tests set the variable
if [ -f "$release" ]; then
  . "$release"
elif [ "$(uname)" = Darwin ]; then
  ID=macos
fi

unpack_wraps() {
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  mkdir -p "$scratch/lists/partial" "$scratch/parts"
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$scratch/sources.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$scratch/parts/${file##*/}"
  done
  apt="apt-get -qq -o APT::Sandbox::User=root -o Dir::Etc::sourcelist=$scratch/sources.list
       -o Dir::Etc::sourceparts=$scratch/parts -o Dir::State::lists=$scratch/lists -o Dir::Cache=$scratch"
  $apt update
  for pair in fmt:fmtlib highway:highway nlohmann_json:nlohmann-json3 xxhash:xxhash icu:icu cli11:cli11 doctest:doctest \
    google-benchmark:benchmark; do
    wrap=${pair%:*} source=${pair#*:}
    folder=subprojects/$(sed -n 's/^directory = //p' "subprojects/$wrap.wrap")
    version=$(sed -n 's/^source_filename = .*-\([0-9.]*[0-9]\)\.t.*/\1/p' "subprojects/$wrap.wrap")
    [ ! -d "$folder" ] || continue
    (cd "$scratch" && $apt source --download-only "$source")
    for archive in "$scratch/${source}_$version"*.orig.tar.?z; do
      [ -f "$archive" ] || { echo "Debian's $source is not version $version, that of subprojects/$wrap.wrap" >&2; exit 1; }
      mkdir "$folder"
      tar -xf "$archive" -C "$folder" --strip-components=1
      cp "subprojects/packagefiles/$wrap/meson.build" "$folder"
    done
  done
}

packages="g++ meson ninja-build pkg-config libopenblas0-pthread libfmt-dev libhwy-dev nlohmann-json3-dev
          libicu-dev libxxhash-dev libsentencepiece-dev"
speech="libsndfile1-dev libkissfft-dev"
tests="libopenmpi-dev openmpi-bin python3 python3-numpy python3-xxhash python3-matplotlib
       cmake doctest-dev libbenchmark-dev libcli11-dev"
python="python3 python3-numpy python3-xxhash python3-matplotlib"
built= left_out= before= pip=
case $ID-$VERSION_ID in
  debian-* | ubuntu-24.04) ;;
  ubuntu-22.04)
    packages="g++-12 python3-pip ninja-build pkg-config libopenblas0-pthread nlohmann-json3-dev libicu-dev libxxhash-dev
              libsentencepiece-dev"
    built="Highway and fmt (the packages are too old)"
    pip=meson before="export CXX=g++-12"
    ;;
  fedora-*)
    packages="gcc-c++ meson ninja-build pkgconf-pkg-config fmt-devel highway-devel json-devel libicu-devel xxhash-devel
              sentencepiece-devel"
    speech="libsndfile-devel kiss-fft-devel"
    tests="cmake doctest-devel google-benchmark-devel cli11-devel $python"
    left_out="several processes (MPI)"
    ;;
  arch-*)
    packages="gcc meson ninja pkgconf fmt highway nlohmann-json icu xxhash sentencepiece"
    speech=
    tests="openmpi cmake doctest benchmark cli11 python python-numpy python-xxhash python-matplotlib"
    left_out="speech (KissFFT has no package)"
    ;;
  alpine-*)
    packages="g++ meson ninja pkgconf fmt-dev highway-dev nlohmann-json icu-dev xxhash-dev"
    speech="libsndfile-dev kissfft-dev"
    tests="openmpi-dev cmake doctest-dev benchmark-dev python3 py3-numpy py3-xxhash py3-matplotlib"
    built="CLI11"
    left_out="subwords (sentencepiece has no package)"
    ;;
  macos-*)
    packages="meson ninja pkgconf fmt highway nlohmann-json icu4c xxhash sentencepiece"
    speech=
    tests="open-mpi cmake doctest google-benchmark cli11 numpy python-matplotlib"
    left_out="speech (KissFFT has no package)"
    before='export PKG_CONFIG_PATH="$(brew --prefix icu4c)/lib/pkgconfig"'
    ;;
  *)
    echo "$0: unknown system '$ID $VERSION_ID', expected Debian, Ubuntu 22.04 or 24.04, Fedora, Arch, Alpine or macOS. Elsewhere," \
      "install a C++20 compiler, meson and ninja; meson setup build --wrap-mode=forcefallback builds the libraries." >&2
    exit 1
    ;;
esac
case $ID-$VERSION_ID/$wanted in
  debian-12/* | */ | */speech | */tests) ;;
  *) echo "$0: unknown set '$wanted' on $ID $VERSION_ID, expected speech or tests" >&2; exit 1 ;;
esac
case $wanted in
  "") ;;
  speech) packages="$packages $speech" ;;
  page) packages="$packages emscripten node-acorn" ;;
  page-tests) packages="$packages chromium python3" ;;
  tests) packages="$packages $speech $tests" ;;
  format) packages="$packages $speech $tests clang-format" ;;
  full) packages="$packages $speech $tests spin gcovr doxygen build-essential debhelper lintian python3-torch" ;;
  clang) packages="$packages $speech $tests clang-14 clang-tidy-14" ;;
  aarch64) packages="$packages $speech $tests g++-aarch64-linux-gnu qemu-user-static pkgconf:arm64 libopenblas0-pthread:arm64
         libfmt-dev:arm64 libhwy-dev:arm64 libxxhash-dev:arm64 libicu-dev:arm64 libsndfile1-dev:arm64 libkissfft-dev:arm64" ;;
  release) packages="$packages python3 python3-venv qemu-user-static emscripten node-acorn doxygen zip" ;;
  wraps) unpack_wraps; exit ;;
  *)
    echo "$0: unknown set '$wanted', expected speech, tests, page, page-tests, format, full, clang, aarch64, release or wraps" >&2
    exit 1
    ;;
esac

missing=
for package in $packages; do
  status=
  case $print$ID in debian | ubuntu) status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true) ;; esac
  case $status in "install ok installed"*) ;; *) missing="$missing $package" ;; esac
done
if [ -z "$missing" ]; then
  echo "All packages are installed."
  exit 0
fi

as_root=
if [ "$print" ]; then
  as_root=echo
elif [ "$ID" != macos ] && [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "These packages are missing, and installing them needs root or sudo:$missing" >&2
    exit 1
  fi
  as_root=sudo
fi
[ "$print" ] && exec 3>&1 || exec 3>/dev/null
[ "$print" ] || echo "Installing:$missing"
case $ID in
  debian | ubuntu)
    case $missing in *:arm64*) $as_root dpkg --add-architecture arm64 ;; esac
    $as_root apt-get update -qq
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&3
    [ -z "$pip" ] || $as_root python3 -m pip install -q $pip
    ;;
  fedora) $as_root dnf install -y $missing ;;
  arch) $as_root pacman -S --needed --noconfirm $missing ;;
  alpine) $as_root apk add $missing ;;
  macos) $as_root brew install $missing ;;
esac
[ -z "$built" ] || echo "# Meson builds $built from subprojects/."
[ -z "$left_out" ] || echo "# Left out: $left_out."
[ -z "$before" ] || echo "# Before meson setup: $before"
