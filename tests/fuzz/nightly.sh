#!/bin/sh
# Builds the fuzz targets with clang, runs each for SECONDS (default: 60), at most 10 million times, one
# target per CPU at a time, and prints a table. After a finding, the exit status is 1, and its input and
# log are in build-fuzz/findings.
#
#     tests/fuzz/nightly.sh [SECONDS [TARGET...]]
#
# The corpus is kept in build-fuzz/corpus; the next run continues with it. CXX: default clang++-14.
set -eu
cd "$(dirname "$0")/../.."
build=build-fuzz

# run SECONDS TARGET: runs a target and prints a line of the table.
run() {
  mkdir -p $build/corpus/"$2" $build/findings
  log=$build/findings/$2.log
  dictionary=tests/fuzz/dictionaries/$2.dict
  if [ -f "$dictionary" ]; then dictionary=-dict=$dictionary; else dictionary=; fi
  # Limit of a single allocation in MB. Readers of files must not allocate much; tensors may.
  if [ "$2" = graph ]; then most=256; else most=32; fi
  finding=-
  UBSAN_OPTIONS=print_stacktrace=1 $build/tests/fuzz/fuzz_"$2" -max_total_time="$1" -runs=10000000 -timeout=10 \
    -rss_limit_mb=1024 -malloc_limit_mb=$most $dictionary -print_final_stats=1 -artifact_prefix=$build/findings/"$2"- \
    $build/corpus/"$2" tests/fuzz/corpus/"$2" >"$log" 2>&1 || finding=$log
  statistic() { sed -n "s/^stat::$1: *//p" "$log"; }
  printf '%-14s %12s %13s  %s\n' "$2" "$(statistic number_of_executed_units)" "$(statistic average_exec_per_sec)" "$finding"
  [ "$finding" = - ]
}

if [ "${1:-}" = --one ]; then
  run "$2" "$3"
  exit
fi

seconds=${1:-60}
[ $# -gt 0 ] && shift
if [ $# -eq 0 ]; then
  for file in tests/fuzz/*.cpp; do
    target=$(basename "$file" .cpp)
    [ "$target" = run_corpus ] || set -- "$@" "$target"
  done
fi
if [ ! -f $build/build.ninja ]; then
  CXX=${CXX:-clang++-14} meson setup $build -Dfuzz=true -Ddefault_library=static -Dexamples=enabled -Dtests=disabled \
    -Dbench=disabled -Doptimization=1 -Ddebug=true
fi
programs=
for target in "$@"; do programs="$programs tests/fuzz/fuzz_$target"; done
ninja -C $build $programs
printf '\n%-14s %12s %13s  %s\n' target executions executions/s finding
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 tests/fuzz/nightly.sh --one "$seconds" || exit 1
