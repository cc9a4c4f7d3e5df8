// Matrix products.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune {

/// A matrix in memory that it does not own: `rows` x `cols`, consecutive rows `stride` elements
/// apart; when `transposed`, the memory holds its transpose (cols x rows).
template <class T>
struct MatrixView {
  T* data;
  Index rows, cols;
  Index stride;
  bool transposed = false;

  MatrixView transpose() const { return {data, cols, rows, stride, !transposed}; }
};

/// What a product does with the contents of C.
enum class Into { overwrite, add };

/// C = A·B or C += A·B, where A (M, K), B (K, N), C (M, N) and C is not transposed. The work is cut
/// into tiles of C that depend on the shapes alone; each is one single-threaded BLAS call, so the
/// result does not depend on the number of threads.
template <class T>
void gemm(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          Into into = Into::overwrite);

/// Which operands of a product are transposed first.
struct Transpose {
  bool a = false, b = false;
};

/// (..., K) x (K, N) -> (..., N): leading axes of a are folded into rows. With transpose.a, a must
/// be (K, M); with transpose.b, b is (N, K).
Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose = {});

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each place of the leading axes, which
/// must be equal. With transpose.a the matrices of a are (K, M), with transpose.b those of b (N, K).
Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose = {});

/// c += aᵀ·b for a (M, K), b (M, N), into columns [column, column + N) of c (K, C).
void add_product(const Tensor& a, const Tensor& b, Tensor& c, Index column = 0);

}  // namespace attune
