// Matrix products by a library with the interface of CBLAS, loaded at run time. Not installed.
#pragma once

#include <string>
#include <tuple>

#include <attune/tensor/kernels/gemm.hpp>

namespace attune::detail {

/// A BLAS: OpenBLAS, or another library with the symbols of CBLAS and 32-bit integers, such as MKL's
/// libmkl_rt, BLIS or AOCL.
class Blas {
 public:
  /// The library that ATTUNE_PRODUCTS selects; null if it selects the library's own kernels. Throws
  /// if its value is not supported, or if the library cannot be loaded.
  static const Blas* selected();
  /// Loads "openblas" or the library at a path. Throws if that fails.
  explicit Blas(const std::string& name);

  /// "OpenBLAS (Cooperlake)"; else the name of the file, with what the library tells about itself.
  const std::string& name() const { return name_; }

  /// C = A·B or C += A·B for C not transposed, as `gemm` in gemm.hpp, on as many threads as attune
  /// uses. All extents and strides must fit in int.
  template <class T>
  void gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
            Into into) const;

 private:
  /// Signature of gemm in CBLAS.
  template <class T>
  using Gemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                    const T* a, int stride_a, const T* b, int stride_b, T beta, T* c, int stride_c);

  std::string name_;
  std::tuple<Gemm<float>*, Gemm<double>*> gemm_ = {};
  // Sets the number of threads; null if the library has no such function.
  void (*set_threads_)(int) = nullptr;
  void (*set_threads_of_blis_)(Index) = nullptr;
};

}  // namespace attune::detail
