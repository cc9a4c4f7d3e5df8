// The plainest second implementation of what tensors do: doubles, and loops over index tuples.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

#include "support/errors.hpp"

namespace attune::naive {

using At = std::vector<Index>;

/// Calls f(at) for every index tuple of a shape, in row-major order.
template <class F>
void for_each_index(const Shape& shape, F f) {
  At at(static_cast<std::size_t>(shape.rank()), 0);
  for (Index i = 0; i < shape.size(); ++i) {
    f(at);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      auto& place = at[static_cast<std::size_t>(axis)];
      if (++place < shape[axis]) break;
      place = 0;
    }
  }
}

/// Elements by index tuple.
class Array {
 public:
  explicit Array(const Shape& shape) : shape_(shape), v_(static_cast<std::size_t>(shape.size())) {}
  Array(const Tensor& x) : shape_(x.shape()), v_(x.to_vector<double>()) {}  // NOLINT

  const Shape& shape() const { return shape_; }

  /// `at` may have more axes than there are, and count in axes of extent 1, as in broadcasting.
  double& operator[](const At& at) {
    std::size_t flat = 0;
    const std::size_t rank = static_cast<std::size_t>(shape_.rank());
    for (std::size_t i = 0; i < rank; ++i) {
      const Index extent = shape_[static_cast<int>(i)];
      const Index place = extent == 1 ? 0 : at[at.size() - rank + i];
      flat = flat * static_cast<std::size_t>(extent) + static_cast<std::size_t>(place);
    }
    return v_.at(flat);
  }
  double operator[](const At& at) const { return const_cast<Array&>(*this)[at]; }

  Tensor tensor(DType dtype = DType::f64) const {
    return Tensor::of(shape_, std::span<const double>(v_)).to(dtype);
  }

 private:
  Shape shape_;
  std::vector<double> v_;
};

inline Tensor map(const Tensor& x, const std::function<double(double)>& f) {
  Array y(x.shape()), from(x);
  for_each_index(x.shape(), [&](const At& at) { y[at] = f(from[at]); });
  return y.tensor(x.dtype());
}

/// Broadcasting, by the rule itself: missing axes and extents of 1 are repeated.
inline Tensor zip(const Tensor& a, const Tensor& b,
                  const std::function<double(double, double)>& f) {
  At extents(static_cast<std::size_t>(std::max(a.rank(), b.rank())), 1);
  for (const Tensor* x : {&a, &b}) {
    for (int i = 1; i <= x->rank(); ++i) {
      auto& extent = extents[extents.size() - static_cast<std::size_t>(i)];
      if (x->dim(-i) != 1) extent = x->dim(-i);
    }
  }
  Array y{Shape(extents)}, from_a(a), from_b(b);
  for_each_index(y.shape(), [&](const At& at) { y[at] = f(from_a[at], from_b[at]); });
  return y.tensor(a.dtype());
}

/// Sum over `axes` (not negative), which stay with extent 1 or are dropped.
inline Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep = false) {
  Shape shape = x.shape();
  for (int axis : axes) shape = shape.with(axis, 1);
  Array y(shape), from(x);
  for_each_index(x.shape(), [&](const At& at) { y[at] += from[at]; });
  At kept;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (keep || std::ranges::find(axes, axis) == axes.end()) kept.push_back(shape[axis]);
  }
  return y.tensor(x.dtype()).reshape(kept);
}

inline Tensor transpose(const Tensor& x) {
  Array y(Shape{x.dim(1), x.dim(0)}), from(x);
  for_each_index(y.shape(), [&](const At& at) { y[at] = from[{at[1], at[0]}]; });
  return y.tensor(x.dtype());
}

/// (..., K) x (K, N)
inline Tensor matmul(const Tensor& a, const Tensor& b) {
  Array y(a.shape().with(-1, b.dim(1))), from_a(a), from_b(b);
  for_each_index(y.shape(), [&](const At& at) {
    At left = at;
    for (left.back() = 0; left.back() < b.dim(0); ++left.back()) {
      y[at] += from_a[left] * from_b[{left.back(), at.back()}];
    }
  });
  return y.tensor(a.dtype());
}

/// (..., M, K) x (..., K, N), after the transposes asked for.
inline Tensor batched_matmul(const Tensor& a, const Tensor& b, bool transpose_a = false,
                             bool transpose_b = false) {
  const Index k = a.dim(transpose_a ? -2 : -1);
  Array from_a(a), from_b(b);
  Array y(a.shape().with(-2, a.dim(transpose_a ? -1 : -2)).with(-1, b.dim(transpose_b ? -2 : -1)));
  for_each_index(y.shape(), [&](const At& at) {
    const std::size_t row = at.size() - 2, col = at.size() - 1;
    for (Index i = 0; i < k; ++i) {
      At left = at, right = at;
      left[transpose_a ? row : col] = i;
      left[transpose_a ? col : row] = at[row];
      right[transpose_b ? col : row] = i;
      right[transpose_b ? row : col] = at[col];
      y[at] += from_a[left] * from_b[right];
    }
  });
  return y.tensor(a.dtype());
}

/// y[at] = f(all elements of x along the axis).
inline Tensor along_axis(const Tensor& x, int axis, bool keep,
                         const std::function<double(const std::vector<double>&)>& f) {
  Array y(x.shape().with(axis, 1)), from(x);
  for_each_index(y.shape(), [&](const At& at) {
    std::vector<double> elements;
    At source = at;
    for (Index i = 0; i < x.dim(axis); ++i) {
      source[static_cast<std::size_t>(axis)] = i;
      elements.push_back(from[source]);
    }
    y[at] = f(elements);
  });
  const Tensor result = y.tensor(x.dtype());
  return keep ? result : result.reshape(x.shape().without(axis));
}

/// Axis i of the result is axis order[i] of x.
inline Tensor permute(const Tensor& x, const std::vector<int>& order) {
  At extents;
  for (int axis : order) extents.push_back(x.dim(axis));
  Array y{Shape(extents)}, from(x);
  for_each_index(y.shape(), [&](const At& at) {
    At source(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) source[static_cast<std::size_t>(order[i])] = at[i];
    y[at] = from[source];
  });
  return y.tensor(x.dtype());
}

/// Layer normalisation over the last axis, in long double.
inline Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon) {
  Array y(x.shape());
  const Array from(x), g(gain), b(bias);
  const Index n = x.dim(-1);
  for_each_index(x.shape(), [&](const At& at) {
    long double mean = 0, variance = 0;
    At other = at;
    for (other.back() = 0; other.back() < n; ++other.back()) mean += from[other];
    mean /= static_cast<long double>(n);
    for (other.back() = 0; other.back() < n; ++other.back()) {
      variance += (from[other] - mean) * (from[other] - mean);
    }
    variance /= static_cast<long double>(n);
    y[at] = static_cast<double>(g[{at.back()}] * (from[at] - mean) / std::sqrt(variance + epsilon) +
                                b[{at.back()}]);
  });
  return y.tensor(x.dtype());
}

/// Sparsemax by sorting (Martins and Astudillo, 2016, algorithm 1); positions with mask 0 get 0.
inline Tensor sparsemax(const Tensor& x, int axis, const Tensor& mask = {}) {
  Array y(x.shape()), from(x);
  const Array used = mask.defined() ? Array(mask) : Array(ones({}, x.dtype()));
  for_each_index(x.shape(), [&](const At& at) {
    if (used[at] == 0) return;
    std::vector<double> sorted;
    At other = at;
    auto& place = other[static_cast<std::size_t>(axis)];
    for (place = 0; place < x.dim(axis); ++place) {
      if (used[other] != 0) sorted.push_back(from[other]);
    }
    std::ranges::sort(sorted, std::greater<double>());
    long double total = 0, threshold = 0;
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      total += sorted[k];
      const auto size = static_cast<long double>(k + 1);
      if (1 + size * sorted[k] > total) threshold = (total - 1) / size;
    }
    y[at] = static_cast<double>(std::max(0.0L, from[at] - threshold));
  });
  return y.tensor(x.dtype());
}

/// Elements x[at + offset]: a slice, by index.
inline Tensor slice(const Tensor& x, int axis, Index begin, Index end) {
  Array y(x.shape().with(axis, end - begin)), from(x);
  for_each_index(y.shape(), [&](const At& at) {
    At source = at;
    source[static_cast<std::size_t>(axis)] += begin;
    y[at] = from[source];
  });
  return y.tensor(x.dtype());
}

/// Softmax along an axis, in long double and without any trick; positions with mask 0 get 0.
inline Tensor softmax(const Tensor& x, int axis, const Tensor& mask = {}) {
  Array y(x.shape()), from(x);
  const Array used = mask.defined() ? Array(mask) : Array(ones({}, x.dtype()));
  for_each_index(x.shape(), [&](const At& at) {
    if (used[at] == 0) return;
    long double total = 0;
    At other = at;
    auto& place = other[static_cast<std::size_t>(axis)];
    for (place = 0; place < x.dim(axis); ++place) {
      if (used[other] != 0) total += std::exp(static_cast<long double>(from[other]) - from[at]);
    }
    y[at] = static_cast<double>(1 / total);
  });
  return y.tensor(x.dtype());
}

}  // namespace attune::naive

namespace attune {

/// max |a - b| / max(1, |b|) over all elements; infinite where shapes or dtypes differ or one of
/// the two is NaN.
inline double difference(const Tensor& a, const Tensor& b) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!a.defined() || !b.defined() || a.shape() != b.shape() || a.dtype() != b.dtype())
    return infinity;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // infinities too
    const double error = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    largest = std::isnan(error) ? infinity : std::max(largest, error);
  }
  return largest;
}

/// The same bits, NaN included.
inline bool identical(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const auto same = [](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, [](auto p, auto q) {
      return (p == q &&
              std::signbit(static_cast<double>(p)) == std::signbit(static_cast<double>(q))) ||
             (p != p && q != q);
    });
  };
  return same(a.to_vector<double>(), b.to_vector<double>());
}

/// i32 numbers.
inline Tensor ints(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return Tensor::of<std::int32_t>(shape, values);
}
/// f64 numbers.
inline Tensor reals(const Shape& shape, std::initializer_list<double> values) {
  return Tensor::of<double>(shape, values);
}
/// Standard normal numbers pushed away from 0, for denominators.
inline Tensor away_from_zero(const Shape& shape, std::uint64_t seed) {
  return naive::map(randn(shape, DType::f64, seed),
                    [](double v) { return v < 0 ? v - 0.5 : v + 0.5; });
}
inline Tensor positive(const Shape& shape, std::uint64_t seed) {
  return naive::map(randn(shape, DType::f64, seed), [](double v) { return std::abs(v) + 0.25; });
}
/// A (T, B) mask with `lengths` ones in the columns, then zeros.
inline Tensor mask_of(Index steps, std::initializer_list<Index> lengths, DType dtype = DType::f64) {
  naive::Array mask(Shape{steps, static_cast<Index>(lengths.size())});
  naive::for_each_index(mask.shape(), [&](const naive::At& at) {
    mask[at] = at[0] < lengths.begin()[at[1]] ? 1 : 0;
  });
  return mask.tensor(dtype);
}

}  // namespace attune
