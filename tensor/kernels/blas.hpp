// Products of matrices by OpenBLAS. Not installed.
#pragma once

#include <attune/tensor/kernels/gemm.hpp>

namespace attune::detail {

/// Name of OpenBLAS and its kernels, "OpenBLAS (Cooperlake)". Loads it; throws if that fails.
std::string blas_name();

/// C = A·B or C += A·B in T by OpenBLAS, for C not transposed. Call blas_name before
/// the first call.
template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into);

}  // namespace attune::detail
