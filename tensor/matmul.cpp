#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/blas.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/packed.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

using namespace detail::sizes;

template <class T>
MatrixView<const T> matrix(const Tensor& x, bool transposed = false) {
  const Index cols = x.dim(-1), rows = x.shape().product(0, x.rank() - 1);
  const MatrixView<const T> view{x.data<T>(), rows, cols, cols};
  return transposed ? view.transpose() : view;
}

/// c = a·b or c += a·b, for a matrix b (in `owner`) that may be used again, as a weight is at the
/// steps of a decoder.
template <class T>
void multiply(const MatrixView<const T>& a, const Tensor& owner, const MatrixView<const T>& b,
              const MatrixView<T>& c, Into into, Rows rows) {
  if (detail::made_by_blas(a, b, rows)) return detail::blas_gemm(a, b, c, into);
  // One row reads B as it is just as fast, unless it is transposed.
  const bool may_keep =
      !a.transposed && a.rows < many_rows && (a.rows > 1 || b.transposed) && b.cols >= few_columns;
  PackedMatrix<T> packed;
  if (may_keep) packed = detail::kept_packed(owner, b, detail::Uses::one);
  packed.defined() ? gemm<T>(a, packed, c, into) : gemm<T>(a, b, c, into);
}

[[noreturn]] void fail_product(const char* operation, const Tensor& a, const Tensor& b,
                               Transpose transpose) {
  fail(operation,
       fmt::format("shapes do not fit: {}{} x {}{}", to_string(a.shape()), transpose.a ? "ᵀ" : "",
                   to_string(b.shape()), transpose.b ? "ᵀ" : ""));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Transpose transpose, Rows rows) {
  require_same_dtype("matmul", a, b);
  const bool fits = a.rank() >= 1 && b.rank() == 2 && (!transpose.a || a.rank() == 2) &&
                    a.dim(transpose.a ? 0 : -1) == b.dim(transpose.b ? 1 : 0);
  if (!fits) fail_product("matmul", a, b, transpose);
  return visit_floating("matmul", a, [&](auto zero) {
    using T = decltype(zero);
    const Index n = b.dim(transpose.b ? 0 : 1);
    const Shape shape = transpose.a ? Shape{a.dim(1), n} : a.shape().with(-1, n);
    Tensor c = Tensor::uninitialized(shape, a.dtype());
    multiply<T>(matrix<T>(a, transpose.a), b, matrix<T>(b, transpose.b),
                {c.mutable_data<T>(), shape.product(0, shape.rank() - 1), n, n}, Into::overwrite,
                rows);
    return c;
  });
}

Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Rows rows) {
  require_same_dtype("add_matmul", a, b);
  require_same_dtype("add_matmul", a, y);
  if (a.rank() < 1 || b.rank() != 2 || a.dim(-1) != b.dim(0)) fail_product("add_matmul", a, b, {});
  const Shape shape = a.shape().with(-1, b.dim(1));
  if (y.shape() != shape && y.shape() != Shape{b.dim(1)}) {
    fail("add_matmul", fmt::format("{} cannot be added to the product {}", to_string(y.shape()),
                                   to_string(shape)));
  }
  return visit_floating("add_matmul", a, [&](auto zero) {
    using T = decltype(zero);
    Tensor c = y.shape() == shape ? y.clone() : broadcast_to(y, shape);
    const Index n = b.dim(1);
    multiply<T>(matrix<T>(a), b, matrix<T>(b),
                {c.mutable_data<T>(), shape.product(0, shape.rank() - 1), n, n}, Into::add, rows);
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
          PackedMatrix<T> room;
          for (Index i = begin; i < end; ++i) {
            const MatrixView<const T> x{from_a + i * rows * cols, rows, cols, cols};
            const MatrixView<const T> y{from_b + i * b_rows * b_cols, b_rows, b_cols, b_cols};
            gemm<T>(transpose.a ? x.transpose() : x, transpose.b ? y.transpose() : y,
                    {to + i * m * n, m, n, n}, Into::overwrite, &room);
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
    const MatrixView<const T> a_t = matrix<T>(a, true), by = matrix<T>(b);
    const MatrixView<T> to{c.mutable_data<T>() + column, check['K'], check['N'], check['C']};
    multiply<T>(a_t, b, by, to, Into::add, Rows::together);
  });
}

}  // namespace attune
