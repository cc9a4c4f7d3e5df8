#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune {
namespace {

/// Σ_i f(i) in independent sums, so that the loop vectorises.
template <class F>
double sum_in_lanes(Index n, F f) {
  constexpr Index lanes = 8;
  double sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  double total = 0;
  for (; i < n; ++i) total += f(i);
  for (double lane : sums) total += lane;
  return total;
}

/// (outer, n, inner) -> (outer, inner)
template <class T>
void sum_middle(const T* x, T* y, Index outer, Index n, Index inner) {
  if (inner == 1) {
    return parallel_each(outer, detail::runs_of_tile(n), [=](Index o) {
      y[o] = static_cast<T>(sum_in_lanes(n, [&](Index i) -> double { return x[o * n + i]; }));
    });
  }
  constexpr Index widest = 1024;  // accumulators that stay in cache, and long pieces of wide rows
  constexpr Index rows = 64;      // added up in T, before their sum joins that in double
  const Index columns = inner < 8 * widest ? widest / 4 : widest;
  const Index blocks = (inner + columns - 1) / columns;
  parallel_for(outer * blocks, [&](Index tile) {
    const Index o = tile / blocks, begin = tile % blocks * columns;
    const Index width = std::min(columns, inner - begin);
    T* to = y + o * inner + begin;
    double total[widest];
    std::fill_n(total, width, 0.0);
    for (Index first = 0; first < n; first += rows) {
      T part[widest];
      std::fill_n(part, width, T(0));
      for (Index i = first; i < std::min(n, first + rows); ++i) {
        const T* from = x + (o * n + i) * inner + begin;
        simd::add_scaled(T(1), from, part, width);
      }
      for (Index j = 0; j < width; ++j) total[j] += part[j];
    }
    for (Index j = 0; j < width; ++j) to[j] = static_cast<T>(total[j]);
  });
}

/// Sum over adjacent axes [begin, end), which stay with extent 1.
Tensor sum_axes(const Tensor& x, int begin, int end) {
  Shape shape = x.shape();
  for (int axis = begin; axis < end; ++axis) shape = shape.with(axis, 1);
  Tensor y = Tensor::uninitialized(shape, x.dtype(), "sum");
  visit_elements("sum", std::tie(x, y), [&](const auto* from, auto* to) {
    sum_middle(from, to, x.shape().product(0, begin), x.shape().product(begin, end),
               x.shape().product(end, x.rank()));
  });
  return y;
}

std::array<bool, Shape::max_rank> chosen_axes(const Shape& shape, const std::vector<int>& axes) {
  std::array<bool, Shape::max_rank> chosen{};
  std::fill_n(chosen.begin(), shape.rank(), axes.empty());
  for (int axis : axes) chosen[shape.axis(axis)] = true;
  return chosen;
}

Largest largest_along(const char* operation, const Tensor& x, int axis) {
  const detail::AxisView view(operation, x, axis);
  if (view.n == 0)
    fail(operation, fmt::format("axis {} of {} is empty", axis, to_string(x.shape())));
  require_places_in_i32(operation, view.n);
  const Shape shape = x.shape().with(axis, 1);
  Largest y{Tensor::uninitialized(shape, x.dtype(), operation),
            Tensor::uninitialized(shape, DType::i32, operation)};
  auto* places = y.places.mutable_data<std::int32_t>();
  visit_elements(operation, std::tie(x, y.values), [&]<class T>(const T* from, T* values) {
    detail::for_columns(view, [&](Index first, Index width) {
      const Index to = view.reduced(first);
      std::copy_n(from + first, width, values + to);
      std::fill_n(places + to, width, 0);
      for (Index i = 1; i < view.n; ++i) {
        for (Index j = 0; j < width; ++j) {
          const T v = from[first + i * view.inner + j], best = values[to + j];
          if (!(v > best || (v != v && best == best))) continue;
          values[to + j] = v;
          places[to + j] = static_cast<std::int32_t>(i);
        }
      }
    });
  });
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

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, KeepAxes keep) {
  const auto chosen = chosen_axes(x.shape(), axes);
  Tensor y = x;
  // One run of adjacent axes after another, from the end.
  for (int end = x.rank(), begin; end > 0; end = begin) {
    begin = end - 1;
    if (!chosen[begin]) continue;
    while (begin > 0 && chosen[begin - 1]) --begin;
    y = sum_axes(y, begin, end);
  }
  if (y.shares_buffer_with(x)) y = x.clone();  // nothing was reduced: still a tensor of its own
  if (keep == KeepAxes::yes) return y;
  Shape kept = x.shape();
  for (int axis = x.rank(); axis-- > 0;) {
    if (chosen[axis]) kept = kept.without(axis);
  }
  return y.reshape(kept);
}

Index reduced_size(const Shape& shape, const std::vector<int>& axes) {
  const auto chosen = chosen_axes(shape, axes);
  Index n = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) n *= chosen[axis] ? shape[axis] : 1;
  return n;
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, KeepAxes keep) {
  const Index n = reduced_size(x.shape(), axes);
  if (n == 0) fail("mean", fmt::format("there is nothing to average in {}", to_string(x.shape())));
  return sum(x, axes, keep) / static_cast<double>(n);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (broadcast("sum_to", x.shape(), shape) != x.shape()) {
    fail("sum_to",
         fmt::format("{} does not broadcast to {}", to_string(shape), to_string(x.shape())));
  }
  std::vector<int> axes;
  const int added = x.rank() - shape.rank();
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < added || (shape[axis - added] == 1 && x.dim(axis) != 1)) axes.push_back(axis);
  }
  return axes.empty() ? x.reshape(shape) : sum(x, axes, KeepAxes::yes).reshape(shape);
}

Largest max_forward(const Tensor& x, int axis) { return largest_along("max", x, axis); }

Tensor argmax(const Tensor& x) {
  return largest_along("argmax", x, -1).places.reshape(x.shape().without(-1));
}

Tensor max_backward(const Tensor& dy, const Tensor& places, const Shape& shape, int axis) {
  Tensor dx = zeros(shape, dy.dtype());
  const detail::AxisView view("max", dx, axis);
  const auto* place = places.data<std::int32_t>();
  visit_elements("max", std::tie(dy, dx), [&](const auto* from, auto* to) {
    detail::for_columns(view, [&](Index first, Index width) {
      const Index k = view.reduced(first);
      for (Index j = 0; j < width; ++j) to[first + place[k + j] * view.inner + j] = from[k + j];
    });
  });
  return dx;
}

Tensor norm(const Tensor& x, int axis, KeepAxes keep) {
  const detail::AxisView view("norm", x, axis);
  Tensor y = Tensor::uninitialized(x.shape().with(axis, 1), x.dtype(), "norm");
  fill(y, 0);  // where the axis is empty
  visit_elements("norm", std::tie(x, y), [&]<class T>(const T* from, T* to) {
    detail::for_columns(view, [&](Index first, Index width) {
      double total[detail::widest_column_block] = {};
      view.for_elements(first, width, [&](Index at, Index j) {
        const double v = from[at];
        total[j] += v * v;
      });
      for (Index j = 0; j < width; ++j) {
        const bool exact = total[j] > 1e-290 && total[j] < std::numeric_limits<double>::infinity();
        to[view.reduced(first) + j] = static_cast<T>(
            exact ? std::sqrt(total[j]) : scaled_norm(from + first + j, view.n, view.inner));
      }
    });
  });
  return keep == KeepAxes::yes ? y : y.reshape(x.shape().without(axis));
}

double sum_of_squares(const Tensor& x) {
  std::vector<double> parts(x.size() / detail::elementwise_tile + 1);
  visit_elements("sum_of_squares", std::tie(x), [&](const auto* from) {
    parallel_ranges(x.size(), detail::elementwise_tile, [&](Index begin, Index end) {
      parts[begin / detail::elementwise_tile] = simd::sum_of_squares(from + begin, end - begin);
    });
  });
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

std::string first_not_finite(const Tensor& x) {
  // The sum is quick, and finite only where all elements are.
  if (!x.defined() || !is_floating(x.dtype()) || std::isfinite(sum_of_squares(x))) return {};
  return visit_elements("first_not_finite", std::tie(x), [&](const auto* begin) -> std::string {
    const auto* at =
        std::find_if(begin, begin + x.size(), [](auto v) { return !std::isfinite(v); });
    if (at == begin + x.size()) return {};  // only the squares were too large
    return fmt::format("{}, element {} is {}", to_string(x.shape()),
                       element_name(x.shape(), at - begin),
                       std::isnan(*at) ? std::abs(*at) : *at);  // "nan", whatever its sign
  });
}

std::string element_name(const Shape& shape, Index number) {
  std::vector<Index> at(shape.rank());
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = number % shape[axis];
    number /= shape[axis];
  }
  return to_string(Shape(at));
}

}  // namespace attune
