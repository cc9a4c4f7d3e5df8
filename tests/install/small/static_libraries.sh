#!/bin/sh
# Builds libfmt.a and libhwy.a in DIRECTORY from Debian's source packages, in the installed versions,
# because Debian packages fmt and Highway only as shared libraries:
#
#   static_libraries.sh DIRECTORY
set -eu
mkdir -p "$1/sources" "$1/lists/partial"
cd "$1"

for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  [ ! -f "$file" ] || sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' "$file" >"sources/$(basename "$file")"
done
apt() {
  apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/sources" \
    -o Dir::State::lists="$PWD/lists" -o APT::Sandbox::User=root "$@"
}
# library PACKAGE SOURCE_PACKAGE NAME INCLUDES SOURCE...: builds NAME. INCLUDES and SOURCE are paths in
# the source package.
library() {
  version=$(dpkg-query -W -f '${source:Version}\n' "$1" | head -1)  # one line per architecture
  apt source --only-source "$2=$version" >/dev/null
  directory=$(find . -maxdepth 1 -type d -name "$2-*")
  archive=$3
  includes=$directory/$4
  shift 4
  rm -f "$archive"
  for source; do
    object=$(basename "$source" .cc).o
    ${CXX:-g++} -O2 -ffunction-sections -fdata-sections -I "$includes" -c "$directory/$source" -o "$object"
    ar rc "$archive" "$object"
  done
}
apt update
library libfmt-dev fmtlib libfmt.a include src/format.cc
library libhwy-dev highway libhwy.a . hwy/targets.cc
