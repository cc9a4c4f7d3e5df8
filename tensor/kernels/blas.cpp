#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/blas.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::detail {

const Blas* Blas::selected() {
  static const std::unique_ptr<const Blas> blas = [] {
    const char* value = std::getenv("ATTUNE_PRODUCTS");
    const std::string wanted = value ? value : "";
    if (wanted.empty() || wanted == "attune") return std::unique_ptr<const Blas>();
    if (wanted != "openblas" && wanted.find('/') == wanted.npos)
      fail("ATTUNE_PRODUCTS",
           "{} is neither attune, nor openblas, nor the path of a library with CBLAS (with a '/')",
           in_quotes(wanted));
    return std::make_unique<const Blas>(wanted);
  }();
  return blas.get();
}

Blas::Blas(const std::string& wanted)
    : name_(wanted == "openblas" ? "OpenBLAS" : wanted.substr(wanted.rfind('/') + 1)) {
  std::string error;
  void* const library =
      platform::load_library(wanted == "openblas" ? platform::openblas_library : wanted, error);
  if (!library) fail("ATTUNE_PRODUCTS", "{}: {}", name_, error);
  const auto find = [&]<class F>(F*& function, const char* symbol) {
    if (!function) function = reinterpret_cast<F*>(platform::find_symbol(library, symbol));
    return function != nullptr;
  };
  if (!find(std::get<0>(gemm_), "cblas_sgemm") || !find(std::get<1>(gemm_), "cblas_dgemm"))
    fail("ATTUNE_PRODUCTS", "{}: the library has no cblas_sgemm or cblas_dgemm", name_);
  find(set_threads_, "openblas_set_num_threads");
  find(set_threads_, "MKL_Set_Num_Threads");
  find(set_threads_of_blis_, "bli_thread_set_num_threads");
  const char* (*description)() = nullptr;
  void (*description_of_mkl)(char*, int) = nullptr;
  char text[200] = "";
  if (find(description, "openblas_get_corename") || find(description, "bli_info_get_version_str")) {
    name_ += fmt::format(" ({})", description());
  } else if (find(description_of_mkl, "MKL_Get_Version_String")) {
    description_of_mkl(text, sizeof text - 1);
    const char* const version = std::strstr(text, "Version ");  // "... Version 2024.2-Product ..."
    if (version)
      name_ += fmt::format(" ({})", std::string(version + 8, std::strcspn(version, "-") - 8));
  }
}

template <class T>
void Blas::gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
                Into into) const {
  constexpr int row_major = 101, as_stored = 111, transposed = 112;  // constants of CBLAS
  const auto transpose = [](const auto& x) { return x.transposed ? transposed : as_stored; };
  const auto size = [](Index n) { return static_cast<int>(n); };
  product_of_this_cpu.store(true, std::memory_order_relaxed);
  const int n = threads();     // before the lock: waits for another thread's parallel_for
  static std::mutex one_call;  // the serial and OpenMP builds of OpenBLAS do not lock their buffers
  const std::lock_guard lock(one_call);
  if (set_threads_) set_threads_(n);
  if (set_threads_of_blis_) set_threads_of_blis_(n);
  std::get<Gemm<T>*>(gemm_)(row_major, transpose(a), transpose(b), size(c.rows), size(c.cols),
                            size(a.cols), T(1), a.data, size(a.stride), b.data, size(b.stride),
                            into == Into::add ? T(1) : T(0), c.data, size(c.stride));
}
template void Blas::gemm(const MatrixView<const float>&, const MatrixView<const float>&,
                         const MatrixView<float>&, Into) const;
template void Blas::gemm(const MatrixView<const double>&, const MatrixView<const double>&,
                         const MatrixView<double>&, Into) const;

}  // namespace attune::detail
