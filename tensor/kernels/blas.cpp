// The optional backend OpenBLAS of matrix products, loaded at its first use.
#include <mutex>
#include <tuple>

#include <fmt/format.h>
#ifdef ATTUNE_BLAS
#include <dlfcn.h>
#endif

#include <attune/tensor/kernels/blas.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::detail {
namespace {

/// Signature of gemm in CBLAS.
template <class T>
using Gemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                  const T* a, int stride_a, const T* b, int stride_b, T beta, T* c, int stride_c);

struct OpenBlas {
  std::tuple<Gemm<float>*, Gemm<double>*> gemm = {};
  void (*set_num_threads)(int) = nullptr;
  std::string kernels;  // name of its CPU-specific kernels; empty after an error
  std::string error;    // why OpenBLAS cannot be used; empty if it can
};

OpenBlas load() {
  OpenBlas blas;
#ifdef ATTUNE_BLAS
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    blas.error = dlerror();
    return blas;
  }
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function) blas.error = fmt::format("libopenblas.so.0 has no {}", name);
  };
  const char* (*get_corename)();
  find(std::get<Gemm<float>*>(blas.gemm), "cblas_sgemm");
  find(std::get<Gemm<double>*>(blas.gemm), "cblas_dgemm");
  find(blas.set_num_threads, "openblas_set_num_threads");
  find(get_corename, "openblas_get_corename");
  if (blas.error.empty()) blas.kernels = get_corename();
#else
  blas.error = "attune was built without it";
#endif
  return blas;
}

const OpenBlas& openblas() {
  static const OpenBlas loaded = load();
  return loaded;
}

}  // namespace

std::string blas_name() {
  const OpenBlas& blas = openblas();
  if (!blas.error.empty()) fail("ATTUNE_PRODUCTS", "OpenBLAS: " + blas.error);
  return "OpenBLAS (" + blas.kernels + ")";
}

template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  constexpr int row_major = 101, as_stored = 111, transposed = 112;  // constants of CBLAS
  const auto transpose = [](const auto& x) { return x.transposed ? transposed : as_stored; };
  const auto size = [](Index n) { return static_cast<int>(n); };
  product_of_this_cpu.store(true, std::memory_order_relaxed);
  const int n = threads();     // before the lock: waits for another thread's parallel_for
  static std::mutex one_call;  // the serial and OpenMP builds of OpenBLAS do not lock their buffers
  const std::lock_guard lock(one_call);
  openblas().set_num_threads(n);
  std::get<Gemm<T>*>(openblas().gemm)(row_major, transpose(a), transpose(b), size(c.rows),
                                      size(c.cols), size(a.cols), T(1), a.data, size(a.stride),
                                      b.data, size(b.stride), into == Into::add ? T(1) : T(0),
                                      c.data, size(c.stride));
}
template void blas_gemm(const MatrixView<const float>&, const MatrixView<const float>&,
                        const MatrixView<float>&, Into);
template void blas_gemm(const MatrixView<const double>&, const MatrixView<const double>&,
                        const MatrixView<double>&, Into);

}  // namespace attune::detail
