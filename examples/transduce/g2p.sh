#!/bin/sh
# From a fresh Debian 12 to pronunciations of words in ten languages:
#   examples/transduce/g2p.sh DATA            one model of each language (an hour on two cores)
#   examples/transduce/g2p.sh DATA 5          five of each, which write together
# DATA is the directory with fre_train.tsv, fre_dev.tsv and so on: data/medium of SIGMORPHON 2021,
# task 1 (github.com/sigmorphon/2021-task1). Installs packages and builds into build/. Safe to
# repeat: what is there is not done again, and a training that was interrupted goes on.
set -eu
seeds=${2-1}
if [ $# -lt 1 ] || [ ! -f "$1/fre_train.tsv" ] || ! [ "$seeds" -ge 1 ] 2>/dev/null; then
  echo "usage: $0 DATA [MODELS], where DATA has fre_train.tsv" >&2
  exit 1
fi
data=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
out=build/g2p-$seeds

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building into build/ (a minute or two, the first time)"
examples/build.sh transduce

echo "== 3/3  Training, with the same options for all languages"
# The task's baseline is an ensemble; its word errors of the development files, in percent.
baseline="arm_e 4.5
bul 8.3
dut 10.8
fre 7.4
geo 0.0
hbs_latn 34.7
hun 1.5
jpn_hira 6.2
kor 18.4
vie_hanoi 1.3"
table=$(mktemp)
trap 'rm -f "$table"' EXIT
echo "$baseline" | while read -r language published; do
  echo "-- $language"
  build/examples/transduce train --train "$data/${language}_train.tsv" --valid "$data/${language}_dev.tsv" \
    --out "$out/$language" --seeds "$seeds" --resume </dev/null
  error=$(build/examples/transduce evaluate --model "$out/$language" --json </dev/null |
    sed 's/.*"all":{[^}]*"word_error":\([^,}]*\)}.*/\1/')
  echo "$language $error $published" >>"$table"
done
awk 'BEGIN { printf "\n%-10s  %12s  %12s\n", "language", "word error %", "baseline %" }
     { printf "%-10s  %12.2f  %12.2f\n", $1, 100 * $2, $3; own += 100 * $2; other += $3 }
     END { printf "%-10s  %12.2f  %12.2f\n", "mean", own / NR, other / NR }' "$table"
echo "Try a word:   build/examples/transduce predict --model $out/fre bonjour"
echo "The reports:  $(pwd)/$out/*/report.html"
