#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

/// Σ_i f(i) in independent sums, so that the loop vectorises.
template <class F>
double sum_in_lanes(Index n, F f) {
  constexpr Index lanes = 8;
  std::array<double, lanes> sums{};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index lane = 0; lane < lanes; ++lane) sums[static_cast<std::size_t>(lane)] += f(i + lane);
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
    parallel_ranges(
        outer, std::max<Index>(1, detail::elementwise_tile / std::max<Index>(1, n)),
        [&](Index begin, Index end) {
          for (Index o = begin; o < end; ++o) {
            y[o] = static_cast<T>(sum_in_lanes(n, [&](Index i) -> double { return x[o * n + i]; }));
          }
        });
    return;
  }
  constexpr Index columns = 256;  // a block of accumulators that stays in cache
  const Index blocks = (inner + columns - 1) / columns;
  parallel_for(outer * blocks, [&](Index tile) {
    const Index o = tile / blocks, begin = tile % blocks * columns;
    const Index width = std::min(columns, inner - begin);
    T* to = y + o * inner + begin;
    std::fill_n(to, width, T(0));
    for (Index i = 0; i < n; ++i) {
      const T* from = x + (o * n + i) * inner + begin;
      for (Index j = 0; j < width; ++j) to[j] += from[j];
    }
  });
}

/// Sum over adjacent axes [begin, end), which stay with extent 1.
Tensor sum_axes(const Tensor& x, int begin, int end) {
  return visit_floating("sum", x, [&](auto zero) {
    using T = decltype(zero);
    Shape shape = x.shape();
    for (int axis = begin; axis < end; ++axis) shape = shape.with(axis, 1);
    Tensor y = Tensor::uninitialized(shape, x.dtype());
    sum_middle(x.data<T>(), y.mutable_data<T>(), x.shape().product(0, begin),
               x.shape().product(begin, end), x.shape().product(end, x.rank()));
    return y;
  });
}

std::vector<bool> chosen_axes(const Shape& shape, const std::vector<int>& axes) {
  std::vector<bool> chosen(static_cast<std::size_t>(shape.rank()), axes.empty());
  for (int axis : axes) chosen[static_cast<std::size_t>(shape.axis(axis))] = true;
  return chosen;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, KeepAxes keep) {
  const std::vector<bool> chosen = chosen_axes(x.shape(), axes);
  Tensor y = x;
  for (int end = x.rank(); end > 0;) {  // one run of adjacent axes after another, from the end
    if (!chosen[static_cast<std::size_t>(end - 1)]) {
      --end;
      continue;
    }
    int begin = end - 1;
    while (begin > 0 && chosen[static_cast<std::size_t>(begin - 1)]) --begin;
    y = sum_axes(y, begin, end);
    end = begin;
  }
  if (y.shares_buffer_with(x)) y = x.clone();  // nothing was reduced: still a tensor of its own
  if (keep == KeepAxes::yes) return y;
  std::vector<Index> kept;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!chosen[static_cast<std::size_t>(axis)]) kept.push_back(x.dim(axis));
  }
  return y.reshape(kept);
}

Index reduced_size(const Shape& shape, const std::vector<int>& axes) {
  const std::vector<bool> chosen = chosen_axes(shape, axes);
  Index n = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (chosen[static_cast<std::size_t>(axis)]) n *= shape[axis];
  }
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

Tensor argmax(const Tensor& x) {
  if (x.rank() == 0 || x.dim(-1) == 0) {
    fail("argmax", fmt::format("the last axis of {} is empty", to_string(x.shape())));
  }
  return visit_floating("argmax", x, [&](auto zero) {
    using T = decltype(zero);
    const Index n = x.dim(-1);
    Tensor y = Tensor::uninitialized(x.shape().without(-1), DType::i32);
    const T* from = x.data<T>();
    auto* to = y.mutable_data<std::int32_t>();
    parallel_ranges(
        y.size(), std::max<Index>(1, detail::elementwise_tile / n), [&](Index begin, Index end) {
          for (Index row = begin; row < end; ++row) {
            const T* first = from + row * n;
            to[row] = static_cast<std::int32_t>(std::max_element(first, first + n) - first);
          }
        });
    return y;
  });
}

double sum_of_squares(const Tensor& x) {
  return visit_floating("sum_of_squares", x, [&](auto zero) {
    const auto* from = x.data<decltype(zero)>();
    std::vector<double> parts(static_cast<std::size_t>(x.size() / detail::elementwise_tile + 1));
    parallel_ranges(x.size(), detail::elementwise_tile, [&](Index begin, Index end) {
      const double total = sum_in_lanes(end - begin, [&](Index k) {
        const double v = from[begin + k];
        return v * v;
      });
      parts[static_cast<std::size_t>(begin / detail::elementwise_tile)] = total;
    });
    double total = 0;
    for (double part : parts) total += part;
    return total;
  });
}

}  // namespace attune
