#!/bin/sh
# Prints the path of a meson cross file for zig, a clang with the headers and C libraries of other systems:
#   tests/install/zig.sh TARGET    x86_64-linux-musl, aarch64-linux-musl, x86_64-windows-gnu, x86_64-macos or aarch64-macos
# Installs zig, a package of PyPI, into build/zig.
set -eu
cd "$(dirname "$0")/../.."
target=$1
out=$PWD/build/zig
wrapper='' linker='echo "LLD 20 (compatible with GNU linkers)"; exit'
case $target in
  x86_64-linux-musl) system=linux ;;
  aarch64-linux-musl) system=linux wrapper=qemu-aarch64-static ;;
  x86_64-windows-gnu) system=windows wrapper=wine ;;
  x86_64-macos | aarch64-macos) system=darwin linker='echo "ld: unknown option: --version PROJECT:ld-1000" >&2; exit 1' ;;
  *) echo "$0: unknown target '$target'" >&2; exit 1 ;;
esac

if [ ! -x "$out/bin/python" ]; then
  python3 -m venv "$out"
  "$out/bin/pip" install -q --disable-pip-version-check ziglang==0.17.1 >&2
fi
# Meson 1.0 does not know the name that zig's linker prints. Without optimisation, zig enables a sanitizer.
cat >"$out/$target-c++" <<END
#!/bin/sh
case "\$*" in *-Wl,--version* | *-Wl,-v) $linker ;; esac
exec "$out/bin/python" -m ziglang c++ -target $target -fno-sanitize=undefined "\$@"
END
# Meson knows windres. Its options for a preprocessor follow the names of the files.
cat >"$out/windres" <<END
#!/bin/sh
case \$1 in --version) echo "GNU windres"; exit ;; esac
exec "$out/bin/python" -m ziglang rc -- "\$1" "\$2"
END
chmod +x "$out/$target-c++" "$out/windres"
cat >"$out/$target.ini" <<END
[binaries]
cpp = '$out/$target-c++'
ar = ['$out/bin/python', '-m', 'ziglang', 'ar']
windres = '$out/windres'
${wrapper:+exe_wrapper = '$wrapper'}

[built-in options]
default_library = 'static'

[host_machine]
system = '$system'
cpu_family = '${target%%-*}'
cpu = '${target%%-*}'
endian = 'little'
END
echo "$out/$target.ini"
