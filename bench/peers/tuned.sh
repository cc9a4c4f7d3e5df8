#!/bin/sh
# Runs a command, such as `/usr/bin/python3 torch_seq2seq.py`, with the fastest settings for PyTorch:
#   * OpenBLAS with OpenMP, so that matrix products and PyTorch's loops share one thread pool. The
#     pthreads variant has a second pool, and the two pools compete for the CPUs.
#   * jemalloc, which keeps freed memory and uses huge pages, so that a step causes no page faults.
#   * For Debian's PyTorch, the fastest OpenBLAS kernels for this CPU, found by measuring (a second or
#     two). The automatic choice of OpenBLAS can be half as fast on CPUs that it does not know.
#     OPENBLAS_CORETYPE=NAME selects the kernels and skips the measurement.
# Needs libjemalloc2. Debian's PyTorch also needs python3-torch python3-numpy libopenblas0-openmp. A
# PyTorch in a virtual environment (`pip install torch numpy`) contains its own matrix products.
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

# Prints the seconds of the forward and backward products of a recurrent step, with the kernels $1.
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
  # Kernels with instructions that the CPU lacks crash; they print no time and are not selected.
  OPENBLAS_CORETYPE=$(
    for kernels in Haswell Zen SkylakeX Cooperlake; do
      echo "$(time_kernels $kernels) $kernels"
    done 2>/dev/null | grep '^[0-9]' | sort -n | sed -n '1s/.* //p'
  )
fi
export OPENBLAS_CORETYPE
export LD_PRELOAD=libjemalloc.so.2
exec "$@"
