// Matrix products and backend selection.
#pragma once

#include <string>

#include <attune/tensor/precision.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Names the backends of matrix products: "attune (avx3)", the library's own kernels, or "OpenBLAS
/// (Cooperlake) and attune (avx3)". A precision other than f32 is appended, ", bf16 by AMX". Two
/// processes with equal names compute the same bits; with a BLAS, if the number of threads and the
/// model of the CPU are also equal. With different names, rounding may differ.
///
/// The environment variable ATTUNE_PRODUCTS selects the backend: `attune` (default), `openblas`, or
/// the path of another library with CBLAS's interface and 32-bit integers, such as
/// /opt/intel/lib/libmkl_rt.so.2 (MKL). A value with a '/' is a path. The BLAS computes f32 and f64
/// products of at least 2^20 multiply-adds and 5 rows, on as many threads as attune uses (OpenBLAS,
/// MKL, BLIS; others use their own setting). Its results also depend on the number of threads, and a
/// row of a product on the other rows. This function and matrix products throw an Error if
/// ATTUNE_PRODUCTS has another value, or if the library cannot be loaded.
std::string matmul_backends();

/// Backends used so far in this process: `portable_matmul_backend` as long as all results are the
/// same on every CPU. Otherwise the name that `matmul_backends` gives, once a BLAS, bf16, bf16x3
/// or kernels without fused multiply-adds (precision.hpp) computed a product.
std::string matmul_backends_used();
inline constexpr const char* portable_matmul_backend = "attune, bit-identical on any CPU with FMA";

/// Which operands of a product are transposed before it.
struct Transpose {
  bool a = false, b = false;
};

/// y + a·b for a (..., K), whose leading axes are folded into rows, and b (K, N) -> (..., N). y is
/// (..., N), or (N), which is added to every row, or undefined (zero). With transpose.a, a is (K,
/// M); with transpose.b, b is (N, K). Throws if shapes or dtypes do not match.
Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Transpose transpose = {});
inline Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose = {}) {
  return add_matmul({}, a, b, transpose);
}

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each index of the leading axes, which
/// broadcast. With transpose.a, a is (..., K, M); with transpose.b, b is (..., N, K). b (K, N) is one
/// product, as in matmul.
Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose = {});

/// c[:, column : column + N] += aᵀ·b in place, for a (M, K), b (M, N), c (K, C).
void add_product(const Tensor& a, const Tensor& b, Tensor& c, Integer column = 0);

}  // namespace attune
