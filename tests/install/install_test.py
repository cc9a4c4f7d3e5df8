"""An installed attune is found by pkg-config, and a program built against it runs.

Run with the build directory; the installation goes to a temporary directory.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """
#include <attune/attune.hpp>
#include <iostream>
int main() {
  attune::nn::Parameters params(1, attune::DType::f64);
  attune::nn::Lstm lstm(params, 3, 2);
  const attune::Tensor x = attune::randn({4, 2, 3}, attune::DType::f64);
  std::cout << attune::nn::gradcheck(params, [&] { return lstm(x).h; });
}
"""


def run(command, **options):
    result = subprocess.run(command, text=True, capture_output=True, **options)
    if result.returncode != 0:
        sys.exit(f"{command}\n{result.stdout}{result.stderr}")
    return result.stdout


def main():
    build = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        run(["meson", "install", "-C", str(build), "--no-rebuild", "--destdir", str(root)])
        pc = next(root.rglob("attune.pc"))
        environment = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(root))
        flags = run(["pkg-config", "--cflags", "--libs", "attune"], env=environment).split()
        source = root / "program.cpp"
        source.write_text(PROGRAM)
        program = root / "program"
        run([os.environ.get("CXX", "g++"), "-std=c++20", str(source), "-o", str(program), *flags])
        library = next(root.rglob("libattune.so")).parent
        output = run([str(program)], env=dict(os.environ, LD_LIBRARY_PATH=str(library)))
    print(output)
    return 0 if output == "gradients agree" else 1


if __name__ == "__main__":
    sys.exit(main())
