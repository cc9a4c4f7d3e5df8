#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/softmax.hpp>

namespace attune {
namespace {

using detail::AxisView, detail::for_columns, detail::widest_column_block;

/// Softmax of up to 64 neighbouring columns at once. The mask, when there is one, repeats over the
/// outer axes: its element for x[i] is mask[i % mask_size].
template <class T>
void softmax_columns(const T* x, const T* mask, Index mask_size, T* y, Index first, Index width,
                     const AxisView& view) {
  T largest[widest_column_block];
  double total[widest_column_block] = {};
  std::fill_n(largest, width, -std::numeric_limits<T>::infinity());
  const auto used = [&](Index at) { return !mask || mask[at % mask_size] != 0; };
  for (Index i = 0; i < view.n; ++i) {
    for (Index j = 0; j < width; ++j) {
      const Index at = first + i * view.inner + j;
      if (used(at) && !(x[at] <= largest[j])) largest[j] = x[at];
    }
  }
  for (Index i = 0; i < view.n; ++i) {
    const Index row = first + i * view.inner;
    for (Index j = 0; j < width; ++j) {
      y[row + j] = used(row + j) ? x[row + j] - largest[j] : T(0);
    }
    simd::exp(y + row, y + row, width);
    for (Index j = 0; j < width; ++j) {
      if (!used(row + j)) y[row + j] = 0;
      total[j] += y[row + j];
    }
  }
  for (Index i = 0; i < view.n; ++i) {
    for (Index j = 0; j < width; ++j) {
      const T t = static_cast<T>(total[j]);
      if (t != 0) y[first + i * view.inner + j] /= t;
    }
  }
}

/// body(begin, size) for blocks of n elements; the sum of what it returns.
template <class Body>
double sum_of_blocks(Index n, Body body) {
  double total = 0;
  for (Index begin = 0; begin < n; begin += simd::sum_block) {
    total += body(begin, std::min(simd::sum_block, n - begin));
  }
  return total;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, const Tensor& mask) {
  return visit_floating("softmax", x, [&](auto zero) {
    using T = decltype(zero);
    const AxisView view("softmax", x.shape(), axis);
    const Tensor places = mask.defined() ? detail::mask_of_axes("softmax", x, mask) : mask;
    Tensor y = Tensor::uninitialized(x.shape(), x.dtype());
    const T* from = x.data<T>();
    const T* mask_data = mask.defined() ? places.data<T>() : nullptr;
    T* to = y.mutable_data<T>();
    for_columns(view, [&](Index first, Index width) {
      if (view.inner == 1) {
        const T* mask_of_row = mask_data ? mask_data + first % places.size() : nullptr;
        return simd::run(simd::SoftmaxRow<T>{from + first, mask_of_row, to + first}, view.n);
      }
      softmax_columns(from, mask_data, places.size(), to, first, width, view);
    });
    return y;
  });
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy, int axis) {
  require_same_dtype("softmax", y, dy);
  if (y.shape() != dy.shape()) {
    fail("softmax", fmt::format("dy {} of y {}", to_string(dy.shape()), to_string(y.shape())));
  }
  return visit_floating("softmax", y, [&](auto zero) {
    using T = decltype(zero);
    const AxisView view("softmax", y.shape(), axis);
    Tensor dx = Tensor::uninitialized(y.shape(), y.dtype());
    const T *value = y.data<T>(), *from = dy.data<T>();
    T* to = dx.mutable_data<T>();
    for_columns(view, [&](Index first, Index width) {
      if (view.inner == 1) {
        const T *y_row = value + first, *dy_row = from + first;
        const T dot = static_cast<T>(sum_of_blocks(view.n, [&](Index begin, Index n) {
          return simd::dot(y_row + begin, dy_row + begin, n);
        }));
        for (Index i = 0; i < view.n; ++i) to[first + i] = y_row[i] * (dy_row[i] - dot);
        return;
      }
      double dot[widest_column_block] = {};
      for (Index i = 0; i < view.n; ++i) {
        const Index row = first + i * view.inner;
        for (Index j = 0; j < width; ++j) dot[j] += value[row + j] * from[row + j];
      }
      for (Index i = 0; i < view.n; ++i) {
        const Index row = first + i * view.inner;
        for (Index j = 0; j < width; ++j) {
          to[row + j] = value[row + j] * (from[row + j] - static_cast<T>(dot[j]));
        }
      }
    });
    return dx;
  });
}

namespace {

/// log Σ_i e^{x_i}
template <class T>
T log_sum_exp(const T* x, Index n) {
  const T largest = simd::largest(x, n);
  if (std::isinf(largest)) {  // `largest` may have ignored a NaN, which is the result then
    const T* nan = std::find_if(x, x + n, [](T v) { return std::isnan(v); });
    return nan == x + n ? largest : *nan;
  }
  const double total = sum_of_blocks(
      n, [&](Index begin, Index width) { return simd::sum_exp(x + begin, largest, width); });
  return largest + static_cast<T>(std::log(total));
}

/// The same of elements `step` apart.
template <class T>
T log_sum_exp(const T* x, Index n, Index step) {
  if (step == 1) return log_sum_exp(x, n);
  std::vector<T> column(n);
  for (Index i = 0; i < n; ++i) column[i] = x[i * step];
  return log_sum_exp(column.data(), n);
}

}  // namespace

Tensor log_sum_exp(const Tensor& x, int axis, KeepAxes keep) {
  return visit_floating("log_sum_exp", x, [&](auto zero) {
    using T = decltype(zero);
    const AxisView view("log_sum_exp", x.shape(), axis);
    Tensor y = full(x.shape().with(axis, 1), -std::numeric_limits<double>::infinity(), x.dtype());
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    for_columns(view, [&](Index first, Index width) {
      for (Index j = 0; j < width; ++j) {
        to[view.reduced(first) + j] = log_sum_exp(from + first + j, view.n, view.inner);
      }
    });
    return keep == KeepAxes::yes ? y : y.reshape(x.shape().without(axis));
  });
}

Tensor log_softmax(const Tensor& x, int axis) {
  axis = detail::checked_axis("log_softmax", x.shape(), axis);
  return zip("log_softmax", x, log_sum_exp(x, axis, KeepAxes::yes),
             [](auto v, auto norm) { return v - norm; });
}

namespace {

constexpr Index cross_entropy_rows = 16;  // rows in one tile of work

void check_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& mask,
                         double smoothing) {
  if (!(smoothing >= 0 && smoothing < 1)) {
    fail("cross_entropy", fmt::format("the smoothing {} is not in [0, 1)", smoothing));
  }
  ShapeCheck check("cross_entropy");
  check("logits", logits.shape(), "N V")("targets", targets.shape(), "N");
  if (mask.defined()) {
    check("mask", mask.shape(), "N");
    require_same_dtype("cross_entropy", logits, mask);
  }
  numbers_below("cross_entropy", "target", targets, check['V']);
}

}  // namespace

CrossEntropy cross_entropy_forward(const Tensor& logits, const Tensor& targets, const Tensor& mask,
                                   double smoothing) {
  check_cross_entropy(logits, targets, mask, smoothing);
  return visit_floating("cross_entropy", logits, [&](auto zero) {
    using T = decltype(zero);
    const Index n = logits.dim(0), v = logits.dim(1);
    CrossEntropy result{Tensor::uninitialized({n}, logits.dtype()),
                        Tensor::uninitialized({n}, logits.dtype())};
    const T *x = logits.data<T>(), *weight = mask.defined() ? mask.data<T>() : nullptr;
    const auto* target = targets.data<std::int32_t>();
    T *loss = result.loss.mutable_data<T>(), *norm = result.log_sum_exp.mutable_data<T>();
    parallel_ranges(n, cross_entropy_rows, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const bool used = !weight || weight[row] != 0;
        const T *from = x + row * v, of_target = from[target[row]];
        norm[row] = used ? log_sum_exp(from, v) : T(0);
        loss[row] = used ? norm[row] - of_target : T(0);
        if (used && smoothing > 0) {
          const double mean = std::reduce(from, from + v, 0.0) / static_cast<double>(v);
          loss[row] += static_cast<T>(smoothing * (of_target - mean));
        }
        if (weight) loss[row] *= weight[row];
      }
    });
    return result;
  });
}

Tensor cross_entropy_backward(Tensor logits, const Tensor& targets, const Tensor& mask,
                              const Tensor& log_sum_exp, double scale, double smoothing) {
  check_cross_entropy(logits, targets, mask, smoothing);
  ShapeCheck("cross_entropy")("logits", logits.shape(), "N V")("log_sum_exp", log_sum_exp.shape(),
                                                               "N");
  return visit_floating("cross_entropy", logits, [&](auto zero) {
    using T = decltype(zero);
    const Index n = logits.dim(0), v = logits.dim(1);
    Tensor result =
        logits.unique() ? logits : Tensor::uninitialized(logits.shape(), logits.dtype());
    const T *x = logits.data<T>(), *weight = mask.defined() ? mask.data<T>() : nullptr;
    const T* norm = log_sum_exp.data<T>();
    const auto* target = targets.data<std::int32_t>();
    T* dx = result.mutable_data<T>();
    const T kept = static_cast<T>(1 - smoothing),
            even = static_cast<T>(smoothing / static_cast<double>(v));
    parallel_ranges(n, cross_entropy_rows, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        T* to = dx + row * v;
        if (weight && weight[row] == 0) {
          std::fill_n(to, v, T(0));
          continue;
        }
        const T by = static_cast<T>(scale) * (weight ? weight[row] : T(1));
        const Index at = target[row];
        T p = x[row * v + at] - norm[row];
        simd::exp(&p, &p, 1);
        simd::run(simd::SoftmaxGradientRow<T>{x + row * v, norm[row], even, by, to}, v);
        to[at] = (p - kept - even) * by;
      }
    });
    return result;
  });
}

}  // namespace attune
