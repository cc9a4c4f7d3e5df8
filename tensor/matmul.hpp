// Matrix products.
#pragma once

#include <attune/tensor/products.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Which operands of a product are transposed first.
struct Transpose {
  bool a = false, b = false;
};

/// (..., K) x (K, N) -> (..., N): leading axes of a are folded into rows. With transpose.a, a must
/// be (K, M); with transpose.b, b is (N, K).
Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose = {}, Rows rows = Rows::apart);

/// y + a·b for a (..., K), b (K, N) and y (..., N) or (N), which is added to every row.
Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Rows rows = Rows::apart);

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each place of the leading axes, which
/// must be equal. With transpose.a the matrices of a are (K, M), with .b those of b (N, K).
Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose = {});

/// c += aᵀ·b for a (M, K), b (M, N), into columns [column, column + N) of c (K, C).
void add_product(const Tensor& a, const Tensor& b, Tensor& c, Index column = 0);

}  // namespace attune
