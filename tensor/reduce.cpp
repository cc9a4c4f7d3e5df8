#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

/// to_j = Σ_i x_ij for W columns of a matrix whose rows are `stride` apart. The sums are in registers.
template <Index W, class T>
void sum_columns(const T* x, Index rows, Index stride, T* to) {
  T sums[W] = {};
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < W; ++j) sums[j] += x[i * stride + j];
  }
  std::copy_n(sums, W, to);
}

/// The same for any number of columns.
template <class T>
void sum_rows(const T* x, Index rows, Index stride, T* to, Index columns) {
  if (columns > 128) {
    std::fill_n(to, columns, T(0));
    for (Index i = 0; i < rows; ++i) simd::add_scaled(T(1), x + i * stride, to, columns);
    return;
  }
  Index j = 0;
  for (; j + 16 <= columns; j += 16) sum_columns<16>(x + j, rows, stride, to + j);
  for (; j + 4 <= columns; j += 4) sum_columns<4>(x + j, rows, stride, to + j);
  for (; j < columns; ++j) sum_columns<1>(x + j, rows, stride, to + j);
}

/// Sum over adjacent axes [first_axis, end_axis), which stay with extent 1:
/// (outer, n, inner) -> (outer, inner)
Tensor sum_axes(const Tensor& x, int first_axis, int end_axis) {
  Shape shape = x.shape();
  for (int axis = first_axis; axis < end_axis; ++axis) shape = shape.with(axis, 1);
  Tensor y = Tensor::uninitialized(shape, x.dtype(), "sum");
  const Index outer = x.shape().product(0, first_axis), n = x.shape().product(first_axis, end_axis),
              inner = x.shape().product(end_axis, x.rank());
  if (inner == 1) {
    const auto compute = [=]<class T>(Index o, const T* from, T* to) {
      to[o] = static_cast<T>(
          detail::sum_in_lanes(n, [&](Index i) -> double { return from[o * n + i]; }));
    };
    parallel_rows("sum", std::tie(x, y), outer, rows_of_tile(n), compute);
    return y;
  }
  constexpr Index widest = 1024;  // accumulators that stay in cache, and long pieces of wide rows
  constexpr Index rows = 64;      // summed in T; their sum is added in double
  const Index columns = inner < 8 * widest ? widest / 4 : widest;
  const Index blocks = ceil_div(inner, columns);
  const auto compute = [=]<class T>(Index block, const T* from, T* to) {
    const Index o = block / blocks, begin = block % blocks * columns;
    const Index width = std::min(columns, inner - begin);
    double total[widest];
    std::fill_n(total, width, 0.0);
    for (Index first = 0; first < n; first += rows) {
      T part[widest];
      sum_rows(from + (o * n + first) * inner + begin, std::min(rows, n - first), inner, part,
               width);
      for (Index j = 0; j < width; ++j) total[j] += part[j];
    }
    for (Index j = 0; j < width; ++j) {
      const auto element = [&](Index i) -> double { return from[(o * n + i) * inner + begin + j]; };
      // A partial sum in T may have overflowed.
      if (!std::isfinite(total[j])) total[j] = detail::sum_in_lanes(n, element);
      to[o * inner + begin + j] = static_cast<T>(total[j]);
    }
  };
  parallel_rows("sum", std::tie(x, y), outer * blocks, 1, compute);
  return y;
}

/// √(Σ x²) of n elements `step` apart, with the largest taken out of the sum.
template <class T>
double scaled_norm(const T* x, Index n, Index step) {
  double largest = 0, total = 0;
  for (Index i = 0; i < n; ++i) {
    const double v = std::abs(static_cast<double>(x[i * step]));
    if (std::isnan(v)) return v;
    largest = std::max(largest, v);
  }
  if (largest == 0 || std::isinf(largest)) return largest;
  for (Index i = 0; i < n; ++i) {
    const double v = x[i * step] / largest;
    total += v * v;
  }
  return largest * std::sqrt(total);
}

/// The norm along an axis, which stays with extent 1.
Tensor norm_along(const Tensor& x, int axis) {
  const detail::AxisView view("norm", x, axis);
  Tensor y = Tensor::uninitialized(x.shape().with(axis, 1), x.dtype(), "norm");
  fill(y, 0);  // where the axis is empty
  const auto compute = [&]<class T>(auto block, const T* from, T* to) {
    double total[detail::widest_column_block] = {};
    view.for_elements(block, [&](Index at, Index j) {
      const double v = from[at];
      total[j] += v * v;
    });
    for (Index j = 0; j < block.width; ++j) {
      const bool exact = total[j] > 1e-290 && total[j] < std::numeric_limits<double>::infinity();
      to[view.reduced(block.first) + j] = static_cast<T>(
          exact ? std::sqrt(total[j]) : scaled_norm(from + block.first + j, view.n, view.inner));
    }
  };
  view.for_blocks(std::tie(x, y), compute);
  return y;
}

Tensor index_of_max(const char* operation, const Tensor& x, int axis, KeepAxes keep) {
  const Tensor indices = max_forward(x, axis, operation).indices;
  return keep == KeepAxes::yes ? indices : indices.reshape(x.shape().without(axis));
}
Tensor floating(const Tensor& x) { return x.dtype() == DType::i32 ? x.to(DType::f64) : x; }

}  // namespace

std::array<bool, Shape::max_rank> chosen_axes(const char* operation, const Shape& shape,
                                              const Axes& axes) {
  std::array<bool, Shape::max_rank> chosen{};
  std::fill_n(chosen.begin(), shape.rank(), axes.empty());
  for (int axis : axes) {
    if (std::exchange(chosen[shape.axis(axis, operation)], true))
      fail(operation, "axis {} of {} is named twice", axis, shape);
  }
  return chosen;
}

Tensor sum(const Tensor& x, const Axes& axes, KeepAxes keep) {
  if (x.dtype() == DType::i32) return to_i32("sum", sum(x.to(DType::f64), axes, keep));
  require_floating("sum", x);
  const auto chosen = chosen_axes("sum", x.shape(), axes);
  Tensor y = x;
  // One run of adjacent axes after another, from the end.
  int runs = 0;
  for (int end = x.rank(), begin; end > 0; end = begin) {
    begin = end - 1;
    if (!chosen[begin]) continue;
    while (begin > 0 && chosen[begin - 1]) --begin;
    y = sum_axes(y, begin, end);
    ++runs;
  }
  if (runs > 1 && x.dtype() == DType::f32 && !first_non_finite(y).empty())
    return sum(x.to(DType::f64), axes, keep).to(DType::f32);  // a sum between runs may overflow f32
  if (y.shares_buffer_with(x)) y = x.clone();  // nothing was reduced: still a tensor of its own
  if (keep == KeepAxes::yes) return y;
  Shape kept = x.shape();
  for (int axis = x.rank(); axis-- > 0;) {
    if (chosen[axis]) kept = kept.without(axis);
  }
  return y.reshape(kept);
}

Index reduced_size(const Shape& shape, const Axes& axes) {
  const auto chosen = chosen_axes("reduction", shape, axes);
  Index n = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) n *= chosen[axis] ? shape[axis] : 1;
  return n;
}

Tensor mean(const Tensor& x, const Axes& axes, KeepAxes keep) {
  if (x.dtype() == DType::i32) return to_i32("mean", mean(x.to(DType::f64), axes, keep));
  const Index n = reduced_size(x.shape(), axes);
  if (n == 0) fail("mean", "the mean over no elements: {}", x.shape());
  return sum(x, axes, keep) / static_cast<double>(n);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (broadcast("sum_to", x.shape(), shape) != x.shape())
    fail("sum_to", "{} does not broadcast to {}", shape, x.shape());
  std::vector<int> axes;
  const int added = x.rank() - shape.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < added || (shape[axis - added] == 1 && x.dim(axis) != 1)) axes.push_back(axis);
  }
  return axes.empty() ? x.reshape(shape) : sum(x, axes, KeepAxes::yes).reshape(shape);
}

MaxAndIndex max_forward(const Tensor& x, Integer axis, const char* operation) {
  const detail::AxisView view(operation, x, axis);
  if (view.n == 0) fail(operation, "axis {} of {} is empty", axis, x.shape());
  require_i32_indices(operation, view.n);
  const Shape shape = x.shape().with(axis, 1);
  MaxAndIndex y{Tensor::uninitialized(shape, x.dtype(), operation),
                Tensor::uninitialized(shape, DType::i32, operation)};
  auto* indices = y.indices.mutable_data<std::int32_t>();
  const auto compute = [&]<class T>(auto block, const T* from, T* values) {
    const auto [first, width] = block;
    const Index to = view.reduced(first);
    std::copy_n(from + first, width, values + to);
    std::fill_n(indices + to, width, 0);
    for (Index i = 1; i < view.n; ++i) {
      for (Index j = 0; j < width; ++j) {
        const T v = from[first + i * view.inner + j], best = values[to + j];
        if (!(v > best || (v != v && best == best))) continue;
        values[to + j] = v;
        indices[to + j] = static_cast<std::int32_t>(i);
      }
    }
  };
  view.for_blocks(std::tie(x, y.values), compute);
  return y;
}

Tensor argmax(const Tensor& x, Integer axis, KeepAxes keep) {
  return index_of_max("argmax", floating(x), axis, keep);
}
Tensor argmin(const Tensor& x, Integer axis, KeepAxes keep) {
  return index_of_max("argmin", -floating(x), axis, keep);
}

JoinedAxes join_axes(const char* operation, const Shape& shape, const Axes& axes, KeepAxes keep) {
  const auto chosen = chosen_axes(operation, shape, axes);
  std::vector<int> order, joined;
  std::vector<Index> extents, reduced;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    (chosen[axis] ? joined : order).push_back(axis);
    if (!chosen[axis]) extents.push_back(shape[axis]);
    if (!chosen[axis] || keep == KeepAxes::yes) reduced.push_back(chosen[axis] ? 1 : shape[axis]);
  }
  if (joined.size() == 1) return {{}, shape, Shape(reduced), joined[0]};
  order.insert(order.end(), joined.begin(), joined.end());
  extents.push_back(reduced_size(shape, axes));
  return {order, Shape(extents), Shape(reduced), static_cast<int>(extents.size()) - 1};
}

Tensor max(const Tensor& x, const Axes& axes, KeepAxes keep) {
  if (x.dtype() == DType::i32) return max(x.to(DType::f64), axes, keep).to(DType::i32);
  return over_axes("max", x, axes, keep,
                   [](const Tensor& of, int axis) { return max_forward(of, axis).values; });
}

Tensor min(const Tensor& x, const Axes& axes, KeepAxes keep) {
  if (x.dtype() == DType::i32) return min(x.to(DType::f64), axes, keep).to(DType::i32);
  return over_axes("min", x, axes, keep, [](const Tensor& of, int axis) {
    return -max_forward(-of, axis, "min").values;
  });
}

Tensor prod(const Tensor& x, const Axes& axes, KeepAxes keep) {
  if (x.dtype() == DType::i32) return to_i32("prod", prod(x.to(DType::f64), axes, keep));
  return over_axes("prod", x, axes, keep, prod_forward);
}

Tensor any(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return sum(x != 0, axes, keep) != 0;
}

Tensor all(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return sum(x == 0, axes, keep) == 0;
}

Tensor prod_forward(const Tensor& x, Integer axis) {
  const detail::AxisView view("prod", x, axis);
  Tensor y = full(x.shape().with(axis, 1), 1, x.dtype());
  const auto compute = [&]<class T>(auto block, const T* from, T* to) {
    double product[detail::widest_column_block];
    std::fill_n(product, block.width, 1.0);
    view.for_elements(block, [&](Index at, Index j) { product[j] *= from[at]; });
    for (Index j = 0; j < block.width; ++j)
      to[view.reduced(block.first) + j] = static_cast<T>(product[j]);
  };
  view.for_blocks(std::tie(x, y), compute);
  return y;
}

Tensor prod_backward(const Tensor& x, const Tensor& dy, Integer axis) {
  const detail::AxisView view("prod", x, axis);
  Tensor dx = Tensor::uninitialized(x.shape(), x.dtype(), "prod");
  const auto compute = [&]<class T>(auto block, const T* from, const T* d, T* to) {
    for (Index j = 0; j < block.width; ++j) {
      std::vector<double> before(view.n);  // products of the elements before each
      double product = d[view.reduced(block.first) + j];
      const bool discarded = product == 0;  // dx is 0 even if elements are not finite
      for (Index k = 0; k < view.n; ++k) {
        before[k] = product;
        product *= from[block.first + k * view.inner + j];
      }
      product = 1;  // of the elements after each
      for (Index k = view.n; k-- > 0;) {
        const Index at = block.first + k * view.inner + j;
        to[at] = discarded ? T(0) : static_cast<T>(before[k] * product);
        product *= from[at];
      }
    }
  };
  view.for_blocks(std::tie(x, dy, dx), compute);
  return dx;
}

Tensor max_backward(const Tensor& dy, const Tensor& indices, const Shape& shape, Integer axis) {
  Tensor dx = zeros(shape, dy.dtype());
  const detail::AxisView view("max", dx, axis);
  const auto* index = indices.data<std::int32_t>();
  const auto compute = [&](auto block, const auto* from, auto* to) {
    const auto [first, width] = block;
    const Index k = view.reduced(first);
    for (Index j = 0; j < width; ++j) to[first + index[k + j] * view.inner + j] = from[k + j];
  };
  view.for_blocks(std::tie(dy, dx), compute);
  return dx;
}

Tensor norm(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return over_axes("norm", x, axes, keep, norm_along);
}

double sum_of_squares(const Tensor& x) {
  std::vector<double> parts(x.size() / elementwise_tile + 1);
  const auto compute = [&](Index begin, Index end, const auto* from) {
    parts[begin / elementwise_tile] = simd::sum_of_squares(from + begin, end - begin);
  };
  parallel_rows("sum_of_squares", std::tie(x), x.size(), elementwise_tile, compute);
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

std::string first_non_finite(const Tensor& x) {
  // The sum is quick, and finite only where all elements are.
  if (!x.defined() || !is_floating(x.dtype()) || std::isfinite(sum_of_squares(x))) return {};
  return visit_elements("first_non_finite", std::tie(x), [&](const auto* begin) -> std::string {
    const auto* at =
        std::find_if(begin, begin + x.size(), [](auto v) { return !std::isfinite(v); });
    if (at == begin + x.size()) return {};  // only the squares were too large
    return fmt::format("{}, element {} is {}", to_string(x.shape()),
                       element_name(x.shape(), at - begin), detail::shown(*at));
  });
}

}  // namespace attune
