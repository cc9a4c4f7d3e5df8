#!/bin/sh
# Builds build/page/attention.html: a page with the library in WebAssembly, which trains a model of dates in any browser.
set -eu
cd "$(dirname "$0")/../.."
examples/packages.sh page
out=build/page

# A directory with only the CPU-independent headers of this system, and .pc files for meson.
mkdir -p $out/headers
ln -sfn /usr/include/fmt /usr/include/hwy /usr/include/nlohmann /usr/include/xxhash.h $out/headers
for name in fmt libhwy nlohmann_json libxxhash; do
  printf 'Name: %s\nDescription: headers\nVersion: 1\nCflags: -I%s/headers\n' $name "$PWD/$out" >$out/$name.pc
done
export PKG_CONFIG_LIBDIR="$PWD/$out" NODE_PATH=/usr/share/nodejs

if [ ! -f $out/wasm/build.ninja ]; then
  meson setup $out/wasm --cross-file examples/page/emscripten.ini -Dblas=disabled -Dmpi=disabled \
    -Dsentencepiece=disabled -Dexamples=disabled -Dtests=disabled -Dbench=disabled >$out/setup.log ||
    { cat $out/setup.log; exit 1; }
fi
ninja -C $out/wasm
built=$out/wasm/examples/page
gzip -9 <$built/attention.wasm | base64 -w 0 >$out/library.txt
cat $built/attention.js examples/page/worker.js >$out/worker.js
sed -e "/^@library@/{r $out/library.txt" -e 'd}' -e "/^@worker@/{r $out/worker.js" -e 'd}' \
  -e '/^@page@/{r examples/page/page.js' -e 'd}' examples/page/page.html >$out/attention.html
echo "$PWD/$out/attention.html"
