#include <algorithm>
#include <limits>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/blas.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/product_sizes.hpp>
#include <attune/tensor/kernels/simd/tiles.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

using namespace detail;
using namespace sizes;

// Backend selection

/// The BLAS that computes A·B; null if the library's own kernels do: a BLAS is not selected, the
/// product is small, or an extent does not fit in int.
template <class T>
const Blas* blas_for(const MatrixView<const T>& a, const MatrixView<const T>& b, Index stride_c) {
  const Blas* const blas = Blas::selected();
  const bool fits = blas && precision_of<T>() == Precision::f32 && a.rows > few_rows &&
                    a.rows * a.cols * b.cols >= blas_work &&
                    std::max({a.rows, a.cols, a.stride, b.cols, b.stride, stride_c}) <=
                        std::numeric_limits<int>::max();
  return fits ? blas : nullptr;
}

std::string products_in(Precision precision) {
  const Blas* const blas = Blas::selected();
  std::string text = (blas ? blas->name() + " and attune (" : "attune (") + simd_target() + ")";
  if (precision == Precision::f32) return text;
  return text + ", " + to_string(precision) + (simd::has_tiles() ? " by AMX" : " by AVX512-BF16");
}

// Products of tensors

template <class T>
MatrixView<const T> matrix(const Tensor& x, bool transposed) {
  const Index cols = x.dim(-1), rows = x.shape().product(0, x.rank() - 1);
  const MatrixView<const T> view{x.data<T>(), rows, cols, cols};
  return transposed ? view.transpose() : view;
}

/// C = A·B or C += A·B for columns of c from `column` on, or C = start + A·B. Caches a packed form
/// of B if that pays, as B may be used again: a weight is, at every step of a decoder.
void multiply(const char* operation, const Tensor& a, const Tensor& b, Transpose transpose,
              Tensor& c, Into into, Index column = 0, const Tensor& start = {}) {
  visit_floating(operation, a, [&](auto zero) {
    using T = decltype(zero);
    const MatrixView<const T> x = matrix<T>(a, transpose.a), y = matrix<T>(b, transpose.b);
    const MatrixView<T> to{c.mutable_data<T>() + column, x.rows, y.cols, c.dim(-1)};
    const Blas* const blas = blas_for(x, y, to.stride);
    if (start.defined() && (blas || x.rows <= few_rows)) {
      const T* const from = start.data<T>();
      for (Index row = 0; row < x.rows; ++row)
        std::copy_n(from + (start.rank() == 1 ? 0 : row * y.cols), y.cols,
                    to.data + row * to.stride);
      return multiply(operation, a, b, transpose, c, Into::add);
    }
    if (blas) return blas->gemm(x, y, to, into);
    // A single row multiplies an unpacked B as fast, unless B is transposed.
    const bool may_keep = !x.transposed && x.rows < many_rows && (x.rows > 1 || y.transposed) &&
                          y.cols >= few_columns;
    PackedMatrix<T> packed = may_keep ? cached_packed(b, y, Uses::one) : PackedMatrix<T>();
    if (start.defined()) {
      if (!packed.defined()) packed.pack(y);
      return gemm<T>(x, packed, to,
                     {start.data<T>(), x.rows, y.cols, start.rank() == 1 ? 0 : y.cols});
    }
    packed.defined() ? gemm<T>(x, packed, to, into) : gemm<T>(x, y, to, into);
  });
}

[[noreturn]] void fail_product(const char* operation, const Tensor& a, const Tensor& b,
                               Transpose transpose) {
  fail(operation, "shapes do not fit: {}{} x {}{}", a.shape(), transpose.a ? "ᵀ" : "", b.shape(),
       transpose.b ? "ᵀ" : "");
}

}  // namespace

std::string matmul_backends() { return products_in(precision()); }

std::string matmul_backends_used() {
  const std::string target = simd_target();
  const bool has_fma = target.starts_with("avx") || target.starts_with("neon");
  const Precision used = detail::least_precision;
  const bool of_any_cpu = has_fma && !detail::product_of_this_cpu && used == Precision::f32;
  return of_any_cpu ? portable_matmul_backend : products_in(used);
}

Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Transpose transpose) {
  const char* const operation = y.defined() ? "add_matmul" : "matmul";
  require_same_dtype(operation, a, b);
  const bool fits = a.rank() >= 1 && b.rank() == 2 && (!transpose.a || a.rank() == 2) &&
                    a.dim(transpose.a ? 0 : -1) == b.dim(transpose.b ? 1 : 0);
  if (!fits) fail_product(operation, a, b, transpose);
  const Index n = b.dim(transpose.b ? 0 : 1);
  const Shape shape = transpose.a ? Shape{a.dim(1), n} : a.shape().with(-1, n);
  if (y.defined()) require_same_dtype(operation, a, y);
  if (y.defined() && y.shape() != shape && y.shape() != Shape{n})
    fail(operation, "{} cannot be added to the product {}", y.shape(), shape);
  Tensor c = Tensor::uninitialized(shape, a.dtype(), operation);
  multiply(operation, a, b, transpose, c, Into::overwrite, 0, y);
  return c;
}

Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose) {
  require_same_dtype("batched_matmul", a, b);
  if (b.rank() == 2 && a.rank() > 2 && !transpose.a) return matmul(a, b, transpose);
  const bool same = a.rank() >= 2 && a.rank() == b.rank() &&
                    std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin());
  if (!same && a.rank() >= 2 && b.rank() >= 2) {
    const auto leading = [](const Shape& x) { return Shape(std::span(x.begin(), x.end() - 2)); };
    const Shape all = broadcast("batched_matmul", leading(a.shape()), leading(b.shape()));
    const auto repeated = [&](const Tensor& x) {
      return broadcast_to(x, all.inserted(-1, x.dim(-2)).inserted(-1, x.dim(-1)));
    };
    return batched_matmul(repeated(a), repeated(b), transpose);
  }
  const bool fits = same && a.dim(transpose.a ? -2 : -1) == b.dim(transpose.b ? -1 : -2);
  if (!fits) fail_product("batched_matmul", a, b, transpose);
  const Index rows = a.dim(-2), cols = a.dim(-1), m = a.dim(transpose.a ? -1 : -2);
  const Index b_rows = b.dim(-2), b_cols = b.dim(-1), n = b.dim(transpose.b ? -2 : -1);
  Tensor c = Tensor::uninitialized(a.shape().with(-2, m).with(-1, n), a.dtype(), "batched_matmul");
  const auto compute = [&]<class T>(Index begin, Index end, const T* from_a, const T* from_b,
                                    T* to) {
    PackedMatrix<T> workspace;
    for (Index i = begin; i < end; ++i) {
      const MatrixView<const T> x{from_a + i * rows * cols, rows, cols, cols};
      const MatrixView<const T> y{from_b + i * b_rows * b_cols, b_rows, b_cols, b_cols};
      gemm<T>(transpose.a ? x.transpose() : x, transpose.b ? y.transpose() : y,
              {to + i * m * n, m, n, n}, Into::overwrite, &workspace);
    }
  };
  const Index tile = std::max<Index>(1, small_product / std::max<Index>(1, rows * cols * n));
  parallel_rows("batched_matmul", std::tie(a, b, c), a.shape().product(0, a.rank() - 2), tile,
                compute);
  return c;
}

void add_product(const Tensor& a, const Tensor& b, Tensor& c, Integer column) {
  require_same_dtype("add_product", a, b);
  require_same_dtype("add_product", a, c);
  ShapeCheck check("add_product");
  check("a", a, "M K")("b", b, "M N")("c", c, "K C");
  if (is_exact_alias("add_product", a, c) || is_exact_alias("add_product", b, c))
    fail("add_product", "c is also a factor");
  if (column < 0 || column > check['C'] - check['N'])
    fail("add_product", "columns {} to {} of {} do not exist", column, column + check['N'],
         c.shape());
  multiply("add_product", a, b, {.a = true}, c, Into::add, column);
}

}  // namespace attune
