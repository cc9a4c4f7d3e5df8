#!/bin/sh
# On a fresh Debian 12, trains grapheme-to-phoneme models for ten languages and American English:
#   examples/g2p/g2p.sh DATA            one model per language (half an hour on two cores)
#   examples/g2p/g2p.sh DATA 5          five per language, evaluated one by one and as an ensemble
#   examples/g2p/g2p.sh DATA 3 fre hun  three per language, for these languages only
# DATA is a directory with fre_train.tsv, fre_dev.tsv and so on: data/medium of SIGMORPHON 2021,
# task 1 (github.com/sigmorphon/2021-task1), and eng_us_*.tsv of its data/high. Installs packages and
# builds into build/. Can be repeated: skips finished steps, and resumes an interrupted training.
set -eu
models=${2-1}
if [ $# -lt 1 ] || [ ! -d "$1" ] || ! [ "$models" -ge 1 ] 2>/dev/null; then
  echo "usage: $0 DATA [MODELS [LANGUAGE...]]" >&2
  exit 1
fi
data=$(cd "$1" && pwd)
if [ $# -gt 2 ]; then shift 2; else set -- arm_e bul dut fre geo hbs_latn hun jpn_hira kor vie_hanoi eng_us; fi
cd "$(dirname "$0")/../.."
out=build/g2p-$models

# Word error rates, %, of the shared task's baseline, an ensemble of ten, on the development files.
baseline() {
  case $1 in
    arm_e) echo 4.5 ;;
    bul) echo 8.3 ;;
    dut) echo 10.8 ;;
    fre) echo 7.4 ;;
    geo) echo 0.0 ;;
    hbs_latn) echo 34.7 ;;
    hun) echo 1.5 ;;
    jpn_hira) echo 6.2 ;;
    kor) echo 18.4 ;;
    vie_hanoi) echo 1.3 ;;
    eng_us) echo 45.13 ;;
    *) echo "$0: unknown language '$1'" >&2; exit 1 ;;
  esac
}
for language; do
  baseline "$language" >/dev/null
  cat "$data/${language}_train.tsv" "$data/${language}_dev.tsv" >/dev/null
done

# The word error rate of a model or an ensemble.
error() {
  scores=$(build/examples/attune evaluate --model "$@" --json </dev/null) || exit 1
  echo "$scores" | sed 's/.*"word_error":\([^,}]*\).*/\1/'
}

echo "== 1/3  Packages"
examples/packages.sh

echo "== 2/3  Building into build/ (some minutes the first time)"
examples/build.sh attune

echo "== 3/3  Training, with the same options for all languages"
table=$(mktemp)
trap 'rm -f "$table"' EXIT
for language; do
  echo "-- $language"
  build/examples/attune train --config examples/g2p/g2p.conf --train "$data/${language}_train.tsv" --valid "$data/${language}_dev.tsv" \
    --out "$out/$language" --seeds "$models" --resume </dev/null
  each=$out/$language
  if [ "$models" -gt 1 ]; then each=$out/$language/seed-*; fi
  row=$(error "$out/$language")
  for model in $each; do row="$row $(error "$model")"; done
  echo "$language $(baseline "$language") $row" >>"$table"
done
# The mean excludes eng_us, as it has more training data than the other languages (8000 words each).
awk 'function row(name, alone, spread, together, published) {
       printf "%-10s  %8.2f ± %4.2f  %9.2f  %9.2f\n", name, alone, spread, together, published
     }
     BEGIN { printf "\nword error rate, %%\n%-10s  %15s  %9s  %9s\n", "language", "one model", "ensemble", "baseline" }
     { n = NF - 3; sum = squares = 0
       for (i = 4; i <= NF; ++i) { sum += 100 * $i; squares += 10000 * $i * $i }
       spread = n > 1 ? sqrt((squares - sum * sum / n) / (n - 1) + 1e-12) : 0
       row($1, sum / n, spread, 100 * $3, $2)
       if ($1 != "eng_us") { ++languages; alone += sum / n; together += 100 * $3; published += $2 } }
     END { if (languages) printf "%-10s  %8.2f %6s  %9.2f  %9.2f\n", "mean", alone / languages, "", together / languages, published / languages }' "$table"
echo "Try a word:  build/examples/attune predict --model $out/$1 WORD"
echo "Reports:     $(pwd)/$out/*/report.html"
