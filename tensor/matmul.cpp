#include <algorithm>

#include <cblas.h>
#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

/// OpenBLAS's own threads change results with their number, and compete with our pool.
[[maybe_unused]] const bool one_blas_thread = (openblas_set_num_threads(1), true);

CBLAS_TRANSPOSE flag(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

blasint blas(Index n) {
  const auto result = static_cast<blasint>(n);
  if (result != n) fail("gemm", fmt::format("{} is more than BLAS can count", n));
  return result;
}

template <class T>
MatrixView<const T> rows_of(const MatrixView<const T>& x, Index begin, Index end) {
  return {x.data + begin * (x.transposed ? 1 : x.stride), end - begin, x.cols, x.stride,
          x.transposed};
}

template <class T>
MatrixView<const T> columns_of(const MatrixView<const T>& x, Index begin, Index end) {
  return rows_of(x.transpose(), begin, end).transpose();
}

/// y = Bᵀ x or y += Bᵀ x: a product with one row reads B once, which is what it costs.
template <class T>
void gemv(const T* x, Index step_x, const MatrixView<const T>& b, T* y, T beta) {
  const Index stored_rows = b.transposed ? b.cols : b.rows,
              stored_cols = b.transposed ? b.rows : b.cols;
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemv(CblasRowMajor, flag(!b.transposed), blas(stored_rows), blas(stored_cols), 1, b.data,
                blas(b.stride), x, blas(step_x), beta, y, 1);
  } else {
    cblas_dgemv(CblasRowMajor, flag(!b.transposed), blas(stored_rows), blas(stored_cols), 1, b.data,
                blas(b.stride), x, blas(step_x), beta, y, 1);
  }
}

template <class T>
void gemm_tile(const MatrixView<const T>& a, const MatrixView<const T>& b, T* c, Index stride_c,
               T beta) {
  if (a.rows == 1) return gemv(a.data, a.transposed ? a.stride : 1, b, c, beta);
  if constexpr (std::is_same_v<T, float>) {
    cblas_sgemm(CblasRowMajor, flag(a.transposed), flag(b.transposed), blas(a.rows), blas(b.cols),
                blas(a.cols), 1, a.data, blas(a.stride), b.data, blas(b.stride), beta, c,
                blas(stride_c));
  } else {
    cblas_dgemm(CblasRowMajor, flag(a.transposed), flag(b.transposed), blas(a.rows), blas(b.cols),
                blas(a.cols), 1, a.data, blas(a.stride), b.data, blas(b.stride), beta, c,
                blas(stride_c));
  }
}

/// Tiles of C: large enough that packing A and B for each does not show, and several of them.
constexpr Index tile_rows = 256, tile_cols = 256;
constexpr Index small_product =
    32 * 1024;  // multiply-adds below which handing out tiles costs more

}  // namespace

template <class T>
void gemm(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, Into into) {
  if (a.cols != b.rows || a.rows != c.rows || b.cols != c.cols || c.transposed) {
    fail("gemm", fmt::format("({}, {}) x ({}, {}) -> ({}, {})", a.rows, a.cols, b.rows, b.cols,
                             c.rows, c.cols));
  }
  if (c.rows == 0 || c.cols == 0) return;
  if (a.cols == 0) {
    if (into == Into::overwrite) {
      for (Index row = 0; row < c.rows; ++row) std::fill_n(c.data + row * c.stride, c.cols, T(0));
    }
    return;
  }
  const T beta = into == Into::add ? T(1) : T(0);
  if (a.rows * a.cols * b.cols <= small_product) return gemm_tile(a, b, c.data, c.stride, beta);
  const Index row_tiles = (c.rows + tile_rows - 1) / tile_rows;
  const Index col_tiles = (c.cols + tile_cols - 1) / tile_cols;
  parallel_for(row_tiles * col_tiles, [&](Index tile) {
    const Index row = tile / col_tiles * tile_rows, col = tile % col_tiles * tile_cols;
    const Index row_end = std::min(c.rows, row + tile_rows),
                col_end = std::min(c.cols, col + tile_cols);
    gemm_tile(rows_of(a, row, row_end), columns_of(b, col, col_end), c.data + row * c.stride + col,
              c.stride, beta);
  });
}
template void gemm(MatrixView<const float>, MatrixView<const float>, MatrixView<float>, Into);
template void gemm(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, Into);

namespace {

template <class T>
MatrixView<const T> matrix(const Tensor& x, bool transposed = false) {
  const Index cols = x.dim(-1), rows = x.shape().product(0, x.rank() - 1);
  const MatrixView<const T> view{x.data<T>(), rows, cols, cols};
  return transposed ? view.transpose() : view;
}

[[noreturn]] void fail_product(const char* operation, const Tensor& a, const Tensor& b,
                               Transpose transpose) {
  fail(operation, fmt::format("{}{} x {}{}", to_string(a.shape()), transpose.a ? "ᵀ" : "",
                              to_string(b.shape()), transpose.b ? "ᵀ" : ""));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose) {
  require_same_dtype("matmul", a, b);
  const bool fits = a.rank() >= 1 && b.rank() == 2 && (!transpose.a || a.rank() == 2) &&
                    a.dim(transpose.a ? 0 : -1) == b.dim(transpose.b ? 1 : 0);
  if (!fits) fail_product("matmul", a, b, transpose);
  return visit_floating("matmul", a, [&](auto zero) {
    using T = decltype(zero);
    const Index n = b.dim(transpose.b ? 0 : 1);
    const Shape shape = transpose.a ? Shape{a.dim(1), n} : a.shape().with(-1, n);
    Tensor c = Tensor::uninitialized(shape, a.dtype());
    const Index rows = shape.product(0, shape.rank() - 1);
    gemm<T>(matrix<T>(a, transpose.a), matrix<T>(b, transpose.b),
            {c.mutable_data<T>(), rows, n, n});
    return c;
  });
}

Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose) {
  require_same_dtype("batched_matmul", a, b);
  const bool fits = a.rank() >= 2 && a.rank() == b.rank() &&
                    std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin()) &&
                    a.dim(transpose.a ? -2 : -1) == b.dim(transpose.b ? -1 : -2);
  if (!fits) fail_product("batched_matmul", a, b, transpose);
  return visit_floating("batched_matmul", a, [&](auto zero) {
    using T = decltype(zero);
    const Index rows = a.dim(-2), cols = a.dim(-1), m = a.dim(transpose.a ? -1 : -2);
    const Index b_rows = b.dim(-2), b_cols = b.dim(-1), n = b.dim(transpose.b ? -2 : -1);
    Tensor c = Tensor::uninitialized(a.shape().with(-2, m).with(-1, n), a.dtype());
    const T *from_a = a.data<T>(), *from_b = b.data<T>();
    T* to = c.mutable_data<T>();
    const Index work = std::max<Index>(1, rows * cols * n);
    parallel_ranges(
        a.shape().product(0, a.rank() - 2), std::max<Index>(1, small_product / work),
        [&](Index begin, Index end) {
          for (Index i = begin; i < end; ++i) {
            const MatrixView<const T> x{from_a + i * rows * cols, rows, cols, cols};
            const MatrixView<const T> y{from_b + i * b_rows * b_cols, b_rows, b_cols, b_cols};
            gemm<T>(transpose.a ? x.transpose() : x, transpose.b ? y.transpose() : y,
                    {to + i * m * n, m, n, n});
          }
        });
    return c;
  });
}

void add_product(const Tensor& a, const Tensor& b, Tensor& c, Index column) {
  require_same_dtype("add_product", a, b);
  require_same_dtype("add_product", a, c);
  ShapeCheck check("add_product");
  check("a", a.shape(), "M K")("b", b.shape(), "M N")("c", c.shape(), "K C");
  if (column < 0 || column + check['N'] > check['C']) {
    fail("add_product", fmt::format("columns {} to {} of {} do not exist", column,
                                    column + check['N'], to_string(c.shape())));
  }
  visit_floating("add_product", a, [&](auto zero) {
    using T = decltype(zero);
    gemm<T>(matrix<T>(a, true), matrix<T>(b),
            {c.mutable_data<T>() + column, check['K'], check['N'], check['C']}, Into::add);
  });
}

}  // namespace attune
