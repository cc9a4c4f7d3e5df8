// Products of matrices in memory, by the library's own kernels. Not installed.
#pragma once

#include <atomic>

#include <attune/tensor/precision.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Non-owning view of a matrix, `rows` x `cols`. Consecutive rows are `stride` elements apart. If
/// `transposed`, the memory holds the transpose, (cols x rows), with that stride.
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
  bool operator==(const MatrixView&) const = default;
};

/// Whether a product overwrites C or adds to it.
enum class Into { overwrite, add };

/// A copy of B (K, N) in the order in which the kernels read it, for use in several products.
template <class T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  explicit PackedMatrix(const MatrixView<const T>& b) { pack(b); }
  /// Packs another matrix, in the same memory if it fits.
  void pack(const MatrixView<const T>& b);

  bool defined() const { return panels_ != nullptr; }
  Index rows() const { return rows_; }
  Index cols() const { return cols_; }
  const T* panels() const { return panels_; }
  /// The precision that the matrix was packed in, and that its products are computed in.
  Precision precision() const { return precision_; }

 private:
  Index rows_ = 0, cols_ = 0;
  Tensor storage_;
  const T* panels_ = nullptr;
  Precision precision_ = Precision::f32;
};

/// C = A·B or C += A·B, for A (M, K), B (K, N), C (M, N); C must not be transposed. Each element
/// of C is one chain of multiply-adds in ascending k. So it does not depend on the other rows
/// and columns or the number of threads, only on the precision (precision.hpp) and on whether
/// the CPU has fused multiply-adds. If it is faster, B is packed first: into `workspace`, if given,
/// which many small products may reuse.
template <class T>
void gemm(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c,
          Into into = Into::overwrite, PackedMatrix<T>* workspace = nullptr);

/// C = start + A·B, with B packed before. The chain of multiply-adds of each element begins with
/// the element of `start`, or 0 if its data is null. A stride of 0 adds one row to all rows.
template <class T>
void gemm(MatrixView<const T> a, const PackedMatrix<T>& b, MatrixView<T> c,
          MatrixView<const T> start);
/// The same product as with B not packed, bit for bit.
template <class T>
void gemm(MatrixView<const T> a, const PackedMatrix<T>& b, MatrixView<T> c,
          Into into = Into::overwrite) {
  gemm<T>(a, b, c,
          into == Into::add ? MatrixView<const T>{c.data, c.rows, c.cols, c.stride}
                            : MatrixView<const T>{nullptr, c.rows, c.cols, 0});
}

namespace detail {

/// True once a CPU-dependent backend was used; and the lowest precision used so far.
inline std::atomic<bool> product_of_this_cpu = false;
inline std::atomic<Precision> least_precision = Precision::f32;

/// How many products the caller is about to compute with the matrix.
enum class Uses { one, many };

/// The packed form of B, whose elements are in the buffer of `owner`. It is cached with that buffer
/// for later products (a weight at every step of a decoder), until the buffer is freed or modified
/// (Buffer::modified_at). The result is undefined if B is small; with Uses::one, at the first call,
/// as packing does not pay for a single product; and if the buffer already caches the maximum
/// number of forms (parts and transposes). Thread-safe.
template <class T>
PackedMatrix<T> cached_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses);

}  // namespace detail
}  // namespace attune
