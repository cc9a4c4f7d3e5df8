#!/bin/sh
# Runs the tests with other compilers, sanitizers and architectures:
#   asan      GCC's AddressSanitizer, LeakSanitizer, UndefinedBehaviorSanitizer, and the standard library's assertions
#   tsan      GCC's ThreadSanitizer: the thread tests, and a short training on four threads
#   clang     clang, with warnings as errors and _FORTIFY_SOURCE=3; without precompiled headers, so that every source
#             must include what it uses
#   aarch64   GCC for 64-bit ARM, under qemu; see tests/install/aarch64.ini for the requirements
#   musl      zig (clang), statically linked with musl
#   windows   zig, for Windows on x86-64, under Wine
#   macos     zig, for macOS on ARM and x86-64: only compiles and links
#   wasm      emscripten, under Node: tensor, autograd and nn; run examples/page/build.sh first
# Arguments: names from this list (default: asan tsan clang aarch64). musl, windows and macos install what they need. Builds into build-NAME, and prints a table of the results.
set -eu
cd "$(dirname "$0")/.."

table=$(mktemp)
scratch=$(mktemp -d)
trap 'rm -rf "$table" "$scratch"' EXIT

# build NAME MESON_ARGUMENT...: builds $targets, or all. -O1 compiles in half the time of -O3.
build() {
  name=$1
  shift
  if [ ! -f "build-$name/build.ninja" ]; then
    meson setup "build-$name" -Doptimization=1 -Dtests=enabled -Dexamples=enabled -Dbench=disabled "$@" \
      >"$scratch/setup.log" || { cat "$scratch/setup.log"; return 1; }
  fi
  ninja -C "build-$name" $targets
}

# run_tests NAME MESON_TEST_ARGUMENT...: runs tests and adds a line to the table.
run_tests() {
  name=$1
  shift
  meson test -C "build-$name" --no-rebuild --num-processes 2 --print-errorlogs --timeout-multiplier 10 "$@" || true
  row=$(python3 tests/support/summary.py "build-$name/meson-logs/testlog.json") || failed=1
  printf '%-10s %s\n' "$name" "$row" >>"$table"
}

asan() {
  build asan -Db_sanitize=address,undefined '-Dcpp_args=-g1 -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS' || return 1
  run_tests asan --suite tensor --suite autograd --suite nn --suite models --suite examples
}

tsan() {
  targets="examples/attune tests/tensor/tensor_test tests/autograd/autograd_test tests/models/models_test tests/models/memory_test"
  build tsan -Db_sanitize=thread -Dcpp_args=-g1 || return 1
  run_tests tsan --suite tensor --suite autograd --suite models '--test-args=-tc=*thread* -tce=*interrupted*'
  seq 1000 2000 | awk '{ print $1 * 7919 "\t" $1 * 7 }' >"$scratch/pairs.tsv"
  TSAN_OPTIONS=halt_on_error=1 build-tsan/examples/attune train "$scratch/pairs.tsv" --out "$scratch/model" \
    --steps 20 --threads 4
}

clang() {
  CXX=${CLANG:-clang++-14} build clang -Dwerror=true -Db_pch=false -Dcpp_args=-D_FORTIFY_SOURCE=3 || return 1
  run_tests clang --suite tensor --suite autograd --suite nn --suite models --suite examples --suite guides
}

aarch64() {
  build aarch64 --cross-file tests/install/aarch64.ini -Dsentencepiece=disabled -Dmpi=disabled || return 1
  # The emulator does not enforce the memory limit that one of these tests sets, and is too slow for the other.
  run_tests aarch64 --suite tensor --suite autograd --suite nn --suite models \
    '--test-args=-tce=*limited?address*,*decoding?of?a?long?pair*'
  seq 1000 2000 | awk '{ print $1 * 7919 "\t" $1 * 7 }' >"$scratch/pairs.tsv"
  qemu-aarch64-static build-aarch64/examples/attune train "$scratch/pairs.tsv" --out "$scratch/model" --steps 100
  check_dates qemu-aarch64-static "$PWD/build-aarch64/examples/dates"
}

# with_zig NAME TARGET MESON_ARGUMENT...: builds with zig and the libraries of subprojects/.
with_zig() {
  name=$1 target=$2
  shift 2
  examples/packages.sh tests
  examples/packages.sh wraps
  build "$name" --cross-file "$(tests/install/zig.sh "$target")" --wrap-mode=forcefallback -Dblas=disabled \
    -Dsentencepiece=disabled -Dmpi=disabled -Dspeech=disabled -Db_pch=false "$@"
}

# check_dates COMMAND...: compares the checksum of a short training with that of other systems.
check_dates() {
  checksum=$(sed -n 's/^CHECKSUM = "\(.*\)"/\1/p' tests/examples/scripts_test.py)
  (cd "$scratch" && "$@" --steps 20) | grep "${checksum:?}"
}

musl() {
  with_zig musl x86_64-linux-musl -Dcpp_link_args=-static || return 1
  run_tests musl --suite tensor --suite autograd --suite nn --suite models --suite guides
  run_tests musl forecast long_sentences hostile_text kill_resume
  # Streams of libc++ read a pipe given by name in blocks: attune predict --file PIPE waits for the end or for 4 KiB.
  run_tests musl pairs '--test-args=-tce=*before?the?next?one*'
  check_dates "$PWD/build-musl/examples/dates"
}

windows() {
  as_root=$([ "$(id -u)" -eq 0 ] || echo sudo)
  command -v wine >/dev/null || $as_root apt-get install -y -qq --no-install-recommends wine wine64 >/dev/null
  export WINEPREFIX="$PWD/build/wine" WINEDEBUG=-all
  with_zig windows x86_64-windows-gnu || return 1
  run_tests windows --suite tensor --suite autograd --suite nn --suite models "--test-args=-tce=$not_on_windows" || return 1
  run_tests windows --suite examples
  check_dates wine "$PWD/build-windows/examples/dates.exe"
}

macos() { # without optimisation, as nothing runs
  with_zig macos-arm aarch64-macos -Doptimization=0 && with_zig macos-x86 x86_64-macos -Doptimization=0 || return 1
  printf '%-10s compiles and links\n' macos >>"$table"
}

# Excluded tests: symbolic links and permissions of POSIX; reasons of errors that Windows does not have, such as "Is a directory".
not_on_windows='*keeps?permissions*,make_directories*,*failed?rename*,files:*reason*,LineReader:*directory*'

# Excluded tests: threads and processes; file errors that Node does not report; comparisons with long double functions,
# which in musl have the precision of double; a message with the number of bytes of a tensor larger than the address space.
not_in_node='*hread*,backends:*,simd?target:*,*DETECT_ANOMALY*,*warns?once*,write_file*,make_directories*,'\
'*regular?file*,*exact?value<double>*,*failed?allocation*,*pullback?in?a?tile*'
wasm() {
  ln -sfn /usr/include/doctest build/page/headers
  export PKG_CONFIG_LIBDIR="$PWD/build/page" NODE_PATH=/usr/share/nodejs
  export EMCC_CFLAGS="-include $PWD/examples/page/libcxx.hpp -isystem $PWD/build/page/headers -sNODERAWFS=1 -sERROR_ON_UNDEFINED_SYMBOLS=0"
  targets="tests/tensor/tensor_test.js tests/autograd/autograd_test.js tests/nn/nn_test.js"
  build wasm --cross-file examples/page/emscripten.ini -Dblas=disabled -Dmpi=disabled -Dsentencepiece=disabled \
    -Dexamples=disabled -Db_pch=false || return 1
  run_tests wasm tensor autograd nn "--test-args=-tce=$not_in_node"
}

failed=0
for row in ${*:-asan tsan clang aarch64}; do
  echo "== $row"
  targets=
  "$row" || { failed=1; printf '%-10s FAILED: build or training\n' "$row" >>"$table"; }
done
cat "$table"
exit $failed
