#!/bin/sh
# Builds the fuzz targets with clang, runs each for some time and prints a table. Ends with 1 when there was a finding:
# its input and the log are then in build-fuzz/findings.
#
#     tests/fuzz/nightly.sh [SECONDS [TARGET...]]
#
# What was reached is kept in build-fuzz/corpus, where the next night goes on. CXX is clang++-14 unless given.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
if [ $# -eq 0 ]; then
  for file in tests/fuzz/*.cpp; do
    target=$(basename "$file" .cpp)
    [ "$target" = run_corpus ] || set -- "$@" "$target"
  done
fi

build=build-fuzz
if [ ! -f $build/build.ninja ]; then
  CXX=${CXX:-clang++-14} meson setup $build -Dfuzz=true -Ddefault_library=static -Dexamples=enabled -Dtests=disabled \
    -Dbench=disabled -Doptimization=1 -Ddebug=true
fi
programs=
for target in "$@"; do programs="$programs tests/fuzz/fuzz_$target"; done
ninja -C $build $programs

export UBSAN_OPTIONS=print_stacktrace=1
status=0
printf '\n%-14s %12s %13s  %s\n' target executions executions/s finding
for target in "$@"; do
  mkdir -p $build/corpus/"$target" $build/findings
  log=$build/findings/$target.log
  dictionary=tests/fuzz/dictionaries/$target.dict
  [ -f "$dictionary" ] || dictionary=/dev/null
  finding=-
  $build/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=32 \
    -dict="$dictionary" -print_final_stats=1 -artifact_prefix=$build/findings/"$target"- \
    $build/corpus/"$target" tests/fuzz/corpus/"$target" >"$log" 2>&1 || {
    finding=$log
    status=1
  }
  stat() { sed -n "s/^stat::$1: *//p" "$log"; }
  printf '%-14s %12s %13s  %s\n' "$target" "$(stat number_of_executed_units)" "$(stat average_exec_per_sec)" "$finding"
done
exit $status
