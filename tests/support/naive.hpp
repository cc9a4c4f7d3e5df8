// A second, naive implementation of tensor operations: doubles, and loops over index tuples.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <attune/tensor/tensor.hpp>

#include "support/errors.hpp"
#include "support/randn.hpp"

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

/// An array of doubles, accessed by index tuple.
class Array {
 public:
  explicit Array(const Shape& shape) : shape_(shape), v_(static_cast<std::size_t>(shape.size())) {}
  Array(const Tensor& x) : shape_(x.shape()), v_(x.to_vector<double>()) {}  // NOLINT

  const Shape& shape() const { return shape_; }

  /// `at` may have more leading axes, and any index in axes of extent 1, as in broadcasting.
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

/// Broadcasting by its definition: missing axes and extents of 1 are repeated.
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

/// Sum over `axes` (not negative), which are kept with extent 1 or removed.
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

/// Exchanges the last two axes.
inline Tensor transpose(const Tensor& x) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order.at(order.size() - 2), order.back());
  return naive::permute(x, order);
}

/// (..., M, K) x (..., K, N), or x (K, N); (K) x (K, N) is also allowed.
inline Tensor matmul(const Tensor& a, const Tensor& b) {
  Array y(a.shape().with(-1, b.dim(-1))), from_a(a), from_b(b);
  for_each_index(y.shape(), [&](const At& at) {
    At left = at, right = at;
    if (right.size() == 1) right.insert(right.begin(), 0);
    for (Index k = 0; k < b.dim(-2); ++k) {
      left.back() = right[right.size() - 2] = k;
      y[at] += from_a[left] * from_b[right];
    }
  });
  return y.tensor(a.dtype());
}

/// The product after the requested transposes.
inline Tensor batched_matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return naive::matmul(transpose_a ? naive::transpose(a) : a,
                       transpose_b ? naive::transpose(b) : b);
}

using Line = std::vector<long double>;

/// f of the unmasked elements along the axis; masked ones give 0.
template <class F>
Tensor map_lines(const Tensor& x, int axis, const Tensor& mask, F f) {
  Array y(x.shape()), from(x);
  const Array used = mask.defined() ? Array(mask) : Array(ones({}, x.dtype()));
  for_each_index(x.shape().with(axis, 1), [&](At at) {
    Line line;
    std::vector<At> places;
    for (Index i = 0; i < x.dim(axis); ++i) {
      at[static_cast<std::size_t>(axis)] = i;
      if (used[at] == 0) continue;
      line.push_back(from[at]);
      places.push_back(at);
    }
    const Line result = f(line);
    for (std::size_t i = 0; i < line.size(); ++i) y[places[i]] = static_cast<double>(result[i]);
  });
  return y.tensor(x.dtype());
}

/// Sparsemax by sorting (Martins and Astudillo, 2016, algorithm 1).
inline Tensor sparsemax(const Tensor& x, int axis, const Mask& mask = {}) {
  return map_lines(x, axis, mask, [](Line e) {
    Line sorted = e;
    std::ranges::sort(sorted, std::greater());
    long double total = 0, threshold = 0;
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      total += sorted[k];
      const auto size = static_cast<long double>(k + 1);
      if (1 + size * sorted[k] > total) threshold = (total - 1) / size;
    }
    for (long double& v : e) v = std::max(0.0L, v - threshold);
    return e;
  });
}

/// Softmax by its definition.
inline Tensor softmax(const Tensor& x, int axis, const Mask& mask = {}) {
  return map_lines(x, axis, mask, [](const Line& e) {
    Line y;
    for (const long double own : e) {
      long double total = 0;
      for (const long double v : e) total += std::exp(v - own);
      y.push_back(1 / total);
    }
    return y;
  });
}

/// The slice that begins at `offset`: x[at + offset].
inline Tensor slice(const Tensor& x, int axis, Index begin, Index end) {
  Array y(x.shape().with(axis, end - begin)), from(x);
  for_each_index(y.shape(), [&](const At& at) {
    At source = at;
    source[static_cast<std::size_t>(axis)] += begin;
    y[at] = from[source];
  });
  return y.tensor(x.dtype());
}

/// y[at] = x[source(at)].
inline Tensor moved(const Tensor& x, const Shape& shape, const std::function<At(At)>& source) {
  Array y(shape), from(x);
  for_each_index(shape, [&](const At& at) { y[at] = from[source(at)]; });
  return y.tensor(x.dtype());
}

}  // namespace attune::naive

namespace attune {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// max |a - b| / max(1, |b|) over all elements; infinite if shapes, dtypes or NaNs differ.
inline double difference(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.shape() != b.shape() || a.dtype() != b.dtype())
    return infinity;
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;  // also infinities
    const double error = std::abs(x[i] - y[i]) / std::max(1.0, std::abs(y[i]));
    largest = std::isnan(error) ? infinity : std::max(largest, error);
  }
  return largest;
}

/// True if all bits are the same, also of NaN.
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

/// A tensor of i32.
inline Tensor ints(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return Tensor::of<std::int32_t>(shape, values);
}
/// A tensor of f64.
inline Tensor reals(const Shape& shape, std::initializer_list<double> values) {
  return Tensor::of<double>(shape, values);
}
/// Standard normal numbers, shifted away from 0, for use as denominators.
inline Tensor away_from_zero(const Shape& shape, std::uint64_t seed) {
  return naive::map(randn(shape, DType::f64, seed),
                    [](double v) { return v < 0 ? v - 0.5 : v + 0.5; });
}
inline Tensor positive(const Shape& shape, std::uint64_t seed) {
  return naive::map(randn(shape, DType::f64, seed), [](double v) { return std::abs(v) + 0.25; });
}
/// A (T, B) mask: column b is 1 for its first lengths[b] steps, then 0.
inline Tensor mask_of(Index steps, const std::vector<Index>& lengths, DType dtype = DType::f64) {
  naive::Array mask(Shape{steps, static_cast<Index>(lengths.size())});
  naive::for_each_index(mask.shape(), [&](const naive::At& at) {
    mask[at] = at[0] < lengths[static_cast<std::size_t>(at[1])] ? 1 : 0;
  });
  return mask.tensor(dtype);
}

}  // namespace attune
