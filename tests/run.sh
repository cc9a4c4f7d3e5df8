#!/bin/sh
# Installs the packages that the tests need, builds everything into build/ and runs all tests. Arguments
# are passed to meson: `tests/run.sh -Dwerror=true`. The last line is `N passed, N failed`, the total of
# all tests. Can be repeated; does not change build/quickstart.
# `tests/run.sh page` builds examples/page and tests it in chromium instead.
set -eu
cd "$(dirname "$0")/.."

if [ "${1-}" = page ]; then
  examples/packages.sh page-tests
  examples/page/build.sh
  exec tests/examples/page_test.py
fi

echo "== 1/3  Packages"
examples/packages.sh tests

echo "== 2/3  Building into build/"
optional=auto
[ ! -f /etc/debian_version ] || optional=enabled  # packages.sh leaves some of them out on other systems
options="-Dsentencepiece=$optional -Dspeech=$optional -Dmpi=$optional -Dexamples=enabled -Dtests=enabled -Dbench=enabled"
if [ -f build/build.ninja ]; then
  meson configure build --clearcache $options "$@"
  meson setup --reconfigure build >build/setup.log || { cat build/setup.log; exit 1; }
else
  meson setup build $options "$@"
fi
ninja -C build

echo "== 3/3  Testing"
status=0
meson test -C build --no-rebuild --num-processes 2 --print-errorlogs || status=$?
python3 tests/support/summary.py build/meson-logs/testlog.json
exit $status
