// Matrix products by BLAS. Not installed.
#pragma once

#include <string>

#include <attune/tensor/gemm.hpp>

namespace attune::detail {

/// The library with its kernels, "OpenBLAS (Cooperlake)"; empty where attune was built without one.
std::string blas_name();

/// Whether its kernels use all of the registers that ours use.
bool blas_is_as_wide();

/// C = A·B or C += A·B, for C not transposed, in as many calls as the shape says, each on one
/// thread: the same bits for any number of threads. Not for bf16.
template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into);

}  // namespace attune::detail
