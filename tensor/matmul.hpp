// Matrix products and backend selection.
#pragma once

#include <atomic>
#include <string>

#include <attune/tensor/precision.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Names the backends of matrix products: "attune (avx3)", the library's own kernels, or
/// "OpenBLAS (Cooperlake) and attune (avx3)", and the precision if it is not f32, ", bf16 by AMX".
/// Programs for which this text is equal compute the same bits; if it differs, so may the rounding.
///
/// The environment variable ATTUNE_PRODUCTS selects the backend: `attune` (default) or `openblas`,
/// which computes f32 and f64 products of at least 2^20 multiply-adds and 5 rows by OpenBLAS, on as
/// many threads as attune uses. With OpenBLAS the bits also depend on the number of threads and a
/// row of a product on the other rows. Any other value, or an OpenBLAS that cannot be loaded, is an
/// Error here and in products.
std::string products();

/// Backends used so far in this process: `products_of_any_cpu` unless a product was computed by
/// OpenBLAS, in bf16 or bf16x3, or by kernels without fused multiply-adds (precision.hpp); then the text of
/// `products`.
std::string products_used();
inline constexpr const char* products_of_any_cpu = "attune, the same bits on any CPU";

/// Which operands of a product are transposed first.
struct Transpose {
  bool a = false, b = false;
};

/// y + a·b for a (..., K), whose leading axes are folded into rows, and b (K, N). y is (..., N), or
/// (N), which is added to every row, or undefined, which adds nothing. With transpose.a, a must be
/// (K, M); with transpose.b, b is (N, K).
Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Transpose transpose = {});
inline Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose = {}) {
  return add_matmul({}, a, b, transpose);
}

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each index of the leading axes, which
/// broadcast. With transpose.a the matrices of a are (K, M), with .b those of b (N, K).
Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose = {});

/// c += aᵀ·b for a (M, K), b (M, N), into columns [column, column + N) of c (K, C).
void add_product(const Tensor& a, const Tensor& b, Tensor& c, Index column = 0);

// Products of matrices in memory, by kernels of our own (gemm.cpp)

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
  /// The precision that it was packed in, and in which its products are computed.
  Precision precision() const { return precision_; }

 private:
  Index rows_ = 0, cols_ = 0;
  Tensor storage_;
  const T* panels_ = nullptr;
  Precision precision_ = Precision::f32;
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
/// C = start + A·B: the chain of an element begins with that of `start`, whose stride is 0 if one row
/// serves all.
template <class T>
void gemm(MatrixView<const T> a, const PackedMatrix<T>& b, MatrixView<T> c,
          MatrixView<const T> start);

namespace detail {

/// The name of OpenBLAS with its kernels, "OpenBLAS (Cooperlake)". Fails if it cannot be loaded.
std::string blas_name();

/// C = A·B or C += A·B by OpenBLAS, after blas_name, for C not transposed. Only in f32.
template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into);

/// True once a CPU-dependent backend was used; the least precision used so far.
inline std::atomic<bool> product_of_this_cpu = false;
inline std::atomic<Precision> least_precision = Precision::f32;

/// How many products the caller is about to make of the matrix.
enum class Uses { one, many };

/// B in packed form, where the elements of B are in the buffer of `owner`. The packed form is kept
/// with that buffer for later products (a weight at every step of a decoder). It is freed with the
/// buffer, and replaced when B is asked for after a modification (Buffer::modified_at). With
/// Uses::one the result is undefined until B is asked for a second time, as packing does not pay
/// for a single product, and always if B is small. It is also undefined where the buffer has too
/// many forms (parts and transposes) already. Any thread may call this.
template <class T>
PackedMatrix<T> kept_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses);

}  // namespace detail
}  // namespace attune
