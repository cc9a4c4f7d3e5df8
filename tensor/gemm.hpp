// The matrix product, on matrices in memory.
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
  MatrixView row_range(Index begin, Index end) const {
    return {data + begin * (transposed ? 1 : stride), end - begin, cols, stride, transposed};
  }
  MatrixView column_range(Index begin, Index end) const {
    return transpose().row_range(begin, end).transpose();
  }
  bool operator==(const MatrixView&) const = default;
};

/// What a product does with the contents of C.
enum class Into { overwrite, add };

/// A copy of B (K, N) in the order in which a product reads it: for a matrix of many products.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  explicit PackedMatrix(const MatrixView<const T>& b) { pack(b); }
  /// Another matrix, in the same memory where it fits.
  void pack(const MatrixView<const T>& b);

  bool defined() const { return panels_ != nullptr; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  const T* panels() const { return panels_; }
  /// Whether it was packed as bf16, and its products are made so.
  bool bf16() const { return bf16_; }

 private:
  Index rows_ = 0, cols_ = 0;
  Tensor storage_;
  const T* panels_ = nullptr;
  bool bf16_ = false;
};

/// C = A·B or C += A·B, where A (M, K), B (K, N), C (M, N) and C is not transposed. An element of C
/// is one chain of multiply-adds in ascending k: it depends neither on the other rows and columns
/// nor on the number of threads, only on the precision (precision.hpp) and on whether the CPU has
/// fused multiply-adds. B is packed first where that pays: in `room`, if given, which many small
/// products may share.
template <class T>
void gemm(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          Into into = Into::overwrite, PackedMatrix<T>* room = nullptr);

/// The same product, to the bit, as with the matrix that was packed.
template <class T>
void gemm(MatrixView<const T> a, const PackedMatrix<T>& b, MatrixView<T> c,
          Into into = Into::overwrite);

}  // namespace attune
