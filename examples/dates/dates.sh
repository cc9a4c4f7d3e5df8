#!/bin/sh
# On a fresh Debian 12, trains a model that converts dates of all ICU locales to ISO 8601:
#   examples/dates/dates.sh             trains (ten minutes on two cores)
#   examples/dates/dates.sh FILE.tsv    also evaluates on lines SOURCE TAB ISO-DATE
# Installs packages and builds into build/. Can be repeated: skips finished steps, and resumes an
# interrupted training.
set -eu
file=
if [ $# -gt 0 ]; then
  if [ ! -f "$1" ]; then echo "$0: $1: no such file" >&2; exit 1; fi
  file=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fi
cd "$(dirname "$0")/../.."
out=build/dates-all

echo "== 1/4  Packages"
examples/packages.sh

echo "== 2/4  Building into build/ (some minutes the first time)"
examples/build.sh attune
examples/build.sh dates_tsv

echo "== 3/4  Generating dates of all locales"
mkdir -p $out
[ -f $out/train.tsv ] || { build/examples/dates_tsv all 3000000 >$out/train.tmp && mv $out/train.tmp $out/train.tsv; }
[ -f $out/held-out.tsv ] || { build/examples/dates_tsv all 2000 held-out >$out/held.tmp && mv $out/held.tmp $out/held-out.tsv; }

echo "== 4/4  Training"
build/examples/attune train --config examples/dates/dates.conf --train $out/train.tsv --valid $out/held-out.tsv \
  --out $out --resume
[ -z "$file" ] || build/examples/attune evaluate "$file" --model $out
