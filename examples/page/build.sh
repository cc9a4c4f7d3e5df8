#!/bin/sh
# Builds build/page/attention.html: a page with the library in WebAssembly and the weights of the quickstart, which runs and trains
# models of dates in any browser.
#   examples/page/build.sh              trains the quickstart's model first, if it is missing
#   examples/page/build.sh MODEL PAGE   writes a PAGE that runs another checkpoint, without subwords
set -eu
[ $# -eq 0 ] || set -- "$(realpath "$1")" "$(realpath -m "${2?expected MODEL PAGE}")"
cd "$(dirname "$0")/../.."
examples/packages.sh page
out=build/page
model=${1-build/quickstart/best.safetensors}
if [ $# -eq 0 ] && [ ! -f "$model" ]; then
  examples/build.sh dates
  build/examples/dates
fi

# A directory with only the CPU-independent headers of this system, and .pc files for meson.
mkdir -p $out/headers
ln -sfn /usr/include/fmt /usr/include/hwy /usr/include/nlohmann /usr/include/xxhash.h $out/headers
for name in fmt libhwy nlohmann_json libxxhash; do
  printf 'Name: %s\nDescription: headers\nVersion: 1\nCflags: -I%s/headers\n' $name "$PWD/$out" >$out/$name.pc
done
export PKG_CONFIG_LIBDIR="$PWD/$out" NODE_PATH=/usr/share/nodejs
export EMCC_CFLAGS="-include $PWD/examples/page/libcxx.hpp ${EMCC_CFLAGS-}"

if [ ! -f $out/wasm/build.ninja ]; then
  meson setup $out/wasm --cross-file examples/page/emscripten.ini -Dblas=disabled -Dmpi=disabled \
    -Dsentencepiece=disabled -Dexamples=disabled -Dtests=disabled -Dbench=disabled >$out/setup.log ||
    { cat $out/setup.log; exit 1; }
fi
ninja -C $out/wasm
built=$out/wasm/examples/page
gzip -9n <$built/attention.wasm | base64 -w 0 >$out/library.txt
base64 -w 0 "$model" >$out/checkpoint.txt
cat $built/attention.js examples/page/worker.js >$out/worker.js
cat models/text/report.js examples/page/page.js >$out/page.js
page=${2-$out/attention.html}
sed -e "s/@lesson@/$([ $# -eq 0 ] && echo dates)/" -e "/^@style@/{r models/text/report.css" -e 'd}' \
  -e "/^@checkpoint@/{r $out/checkpoint.txt" -e 'd}' -e "/^@library@/{r $out/library.txt" -e 'd}' \
  -e "/^@worker@/{r $out/worker.js" -e 'd}' -e "/^@page@/{r $out/page.js" -e 'd}' examples/page/page.html >"$page"
echo "$page"
