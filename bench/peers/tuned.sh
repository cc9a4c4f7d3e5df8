#!/bin/sh
# Runs a command, as `/usr/bin/python3 torch_seq2seq.py`, with what makes PyTorch fastest:
#   * OpenBLAS on OpenMP, so that products and PyTorch's own loops share one pool of threads: the
#     variant on pthreads has a second pool, and the two get in each other's way;
#   * jemalloc, which keeps its memory and backs it with huge pages, so that a step faults no pages;
#   * of Debian's PyTorch, the OpenBLAS kernels that are fastest on this CPU, found by trying (a second or two): what the
#     library selects can be half as fast, where it does not know the CPU. OPENBLAS_CORETYPE=NAME
#     names them instead.
# Needs: apt-get install libjemalloc2, and for Debian's python3-torch python3-numpy libopenblas0-openmp. A
# PyTorch in an environment of its own (`pip install torch numpy`) has its own products.
set -eu

fail() {
  echo "tuned.sh: $1" >&2
  exit 1
}
[ $# -gt 0 ] || fail "no command: tuned.sh COMMAND ARGUMENTS..."
export MALLOC_CONF="thp:always,dirty_decay_ms:-1,muzzy_decay_ms:-1"
if [ "${1#/usr/bin/}" = "$1" ] && [ -e "$(dirname "$1")/../pyvenv.cfg" ]; then
  export LD_PRELOAD=libjemalloc.so.2
  exec "$@"
fi
for package in python3-torch python3-numpy libopenblas0-openmp libjemalloc2; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' ||
    fail "$package is missing: apt-get install python3-torch python3-numpy libopenblas0-openmp libjemalloc2"
done
openblas=$(dirname "$(dpkg -L libopenblas0-openmp | grep '/libblas\.so\.3$')")
export LD_LIBRARY_PATH="$openblas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Seconds of the products of a recurrent step, 64 x 512 x 2048, both ways, with kernels $1.
time_kernels() {
  OPENBLAS_CORETYPE=$1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 /usr/bin/python3 - <<'PY'
import time
import numpy as np
x, w = np.ones((64, 512), np.float32), np.ones((2048, 512), np.float32)
y = x @ w.T
seconds = []
for _ in range(60):
    start = time.perf_counter()
    x @ w.T, y @ w, y.T @ x
    seconds.append(time.perf_counter() - start)
print(f"{min(seconds):.9f}")
PY
}
if [ -z "${OPENBLAS_CORETYPE-}" ]; then
  # A CPU that lacks a kernel's instructions ends that trial: then it has no time and is not chosen.
  OPENBLAS_CORETYPE=$(
    for kernels in Haswell Zen SkylakeX Cooperlake; do
      echo "$(time_kernels $kernels) $kernels"
    done 2>/dev/null | grep '^[0-9]' | sort -n | sed -n '1s/.* //p'
  )
fi
export OPENBLAS_CORETYPE
export LD_PRELOAD=libjemalloc.so.2
exec "$@"
