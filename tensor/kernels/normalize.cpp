#include <cmath>
#include <limits>
#include <vector>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

using namespace detail;

/// The mask in x's dtype, in x's shape or that of its last axes (at least one); undefined if the
/// mask is undefined. Throws if the mask does not broadcast to x.
Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask) {
  if (!mask.defined()) return mask;
  const Tensor y = mask.to(x.dtype());
  if (mask.rank() > 0 && x.shape().ends_with(mask.shape())) return y;
  bool fits = mask.rank() <= x.rank();
  for (int axis = -1; fits && axis >= -mask.rank(); --axis)
    fits = mask.dim(axis) == x.dim(axis) || mask.dim(axis) == 1;
  if (!fits) fail(operation, "the mask {} does not broadcast to x {}", mask.shape(), x.shape());
  return broadcast_to(y, x.shape());
}

/// Softmax of up to 64 neighbouring columns at once. If there is a mask, it repeats over the outer
/// axes: its element for x[i] is mask[i % mask_size].
template <class T>
void softmax_columns(const T* x, const T* mask, Index mask_size, T* y, const AxisView::Block& block,
                     const AxisView& view) {
  T largest[widest_column_block];
  double total[widest_column_block] = {};
  std::fill_n(largest, block.width, std::numeric_limits<T>::lowest());
  const auto used = [&](Index at) { return !mask || mask[at % mask_size] != 0; };
  view.for_elements(block, [&](Index at, Index j) {
    if (used(at) && !(x[at] <= largest[j])) largest[j] = x[at];
  });
  for (Index i = 0; i < view.n; ++i) {
    const Index row = block.first + i * view.inner;
    for (Index j = 0; j < block.width; ++j)
      y[row + j] = used(row + j) ? x[row + j] - largest[j] : T(0);
    simd::exp(y + row, y + row, block.width);
    for (Index j = 0; j < block.width; ++j) {
      if (!used(row + j)) y[row + j] = 0;
      total[j] += y[row + j];
    }
  }
  view.for_elements(block, [&](Index at, Index j) {
    const T t = static_cast<T>(total[j]);
    if (t != 0 && used(at)) y[at] /= t;
  });
}

/// True if `axis` is the last one. The rank decides, not the extents after the axis: a batch of one
/// sentence must use the same summation order as a larger batch, to give the same bits.
bool is_last(const Tensor& x, int axis) { return x.shape().axis(axis) == x.rank() - 1; }

/// Calls body(begin, size) for blocks of n elements, and adds up its results.
template <class Body>
double sum_of_blocks(Index n, Body body) {
  double total = 0;
  for (Index begin = 0; begin < n; begin += simd::sum_block)
    total += body(begin, std::min(simd::sum_block, n - begin));
  return total;
}

/// Trailing zeros of y (padding) are left out, so that they do not change the order of the sum.
template <class T>
void softmax_backward_row(const T* y, const T* dy, T* dx, Index n) {
  Index used = n, i = 0;
  while (used > 0 && y[used - 1] == 0) --used;
  while (i < used && (dy[i] == 0 || y[i] == 0)) ++i;
  if (i == used) return static_cast<void>(std::fill_n(dx, n, T(0)));  // even if y is NaN
  const T dot = static_cast<T>(sum_of_blocks(
      used, [&](Index begin, Index width) { return simd::dot(y + begin, dy + begin, width); }));
  for (i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - dot);
}

/// log Σ_i e^{x_i} = shift + log total, as two parts. If the elements have a large common offset,
/// their sum would lose the small differences to rounding.
template <class T>
struct LogSum {
  T shift;       // the largest x_i; the lowest finite number if all are -∞
  double total;  // Σ_i e^{x_i - shift}
};

template <class T>
LogSum<T> log_sum_of_row(const T* x, Index n) {
  const T shift = std::max(simd::largest(x, n), std::numeric_limits<T>::lowest());
  if (std::isinf(shift)) {  // `largest` may have skipped a NaN; the result is NaN then
    const T* nan = std::find_if(x, x + n, [](T v) { return std::isnan(v); });
    return {nan == x + n ? shift : *nan, 1};
  }
  return {shift, sum_of_blocks(n, [&](Index begin, Index width) {
            return simd::sum_exp(x + begin, shift, width);
          })};
}

/// Calls body(first, row, sum) for each column of a block: the offset of its first element,
/// its elements contiguously, and their LogSum.
template <class T, class Body>
void for_log_sums(const AxisView& view, AxisView::Block block, const T* x, const Body& body) {
  const auto [first, width] = block;
  std::vector<T> column(view.inner == 1 ? 0 : view.n);
  for (Index j = first; j < first + width; ++j) {
    for (Index k = 0; k < std::ssize(column); ++k) column[k] = x[j + k * view.inner];
    const T* row = column.empty() ? x + j : column.data();
    body(j, row, log_sum_of_row(row, view.n));
  }
}

/// log_sum_exp along an axis, which is kept with extent 1.
Tensor log_sum_exp_along(const Tensor& x, int axis) {
  const AxisView view("log_sum_exp", x, axis);
  Tensor y = Tensor::uninitialized(x.shape().with(axis, 1), x.dtype(), "log_sum_exp");
  fill(y, -std::numeric_limits<double>::infinity());  // the result of an empty axis
  const auto compute = [&]<class T>(auto block, const T* from, T* to) {
    for_log_sums(view, block, from, [&](Index j, const T*, const LogSum<T>& sum) {
      to[view.reduced(j)] = static_cast<T>(sum.shift + simd::log(double{sum.total}));
    });
  };
  view.for_blocks(std::tie(x, y), compute);
  return y;
}

constexpr Index cross_entropy_rows = 16;  // rows per tile

void check_cross_entropy(const Tensor& logits, const Tensor& targets, const Tensor& mask,
                         const Smoothing& smoothing) {
  if (!(smoothing.epsilon >= 0 && smoothing.epsilon < 1))
    fail("cross_entropy", "the smoothing {} is not in [0, 1)", smoothing.epsilon);
  ShapeCheck check("cross_entropy");
  check("logits", logits, "N V")("targets", targets, "N");
  if (mask.defined()) {
    check("mask", mask, "N");
    require_same_dtype("cross_entropy", logits, mask);
  }
  checked_ids("cross_entropy", "target", targets, check['V']);
  for (const std::int32_t column : smoothing.unsmoothed) {
    if (column < 0 || column >= check['V'])
      fail("cross_entropy", "column {} without smoothing is not in 0 to {}", column,
           check['V'] - 1);
    if (std::ranges::count(smoothing.unsmoothed, column) > 1)
      fail("cross_entropy", "column {} without smoothing is repeated", column);
  }
  if (smoothing.epsilon > 0 && std::ssize(smoothing.unsmoothed) == check['V'])
    fail("cross_entropy", "all {} columns are without smoothing", check['V']);
}

/// Sparsemax of one column, whose elements are `step` apart. Finds the threshold τ as in Michelot
/// (1986): τ = (Σ_support x - 1) / |support| for the elements above the previous τ, until the
/// support no longer changes. Subtracts the largest element first, so that τ starts at -1.
template <class T, class Used>
void sparsemax_column(const T* x, T* y, Index n, Index step, const Used& used) {
  double largest = std::numeric_limits<double>::lowest();
  for (Index i = 0; i < n; ++i) {
    const double v = x[i * step];
    if (used(i) && !(v <= largest)) largest = v;  // a NaN propagates into τ
  }
  const auto above = [&](Index i) { return x[i * step] - largest; };
  double threshold = -1;
  for (Index support = n + 1; support > 0;) {
    double total = 0;
    Index count = 0;
    for (Index i = 0; i < n; ++i) {
      if (!used(i) || above(i) <= threshold) continue;
      total += above(i);
      ++count;
    }
    if (count == 0) break;
    threshold = (total - 1) / static_cast<double>(count);
    if (count >= support) break;
    support = count;
  }
  for (Index i = 0; i < n; ++i) {
    const double v = used(i) ? above(i) - threshold : 0;
    y[i * step] = static_cast<T>(v <= 0 ? 0 : v);
  }
}

}  // namespace

Tensor softmax(const Tensor& x, Integer axis, const Mask& mask) {
  const AxisView view("softmax", x, axis);
  const Tensor full_mask = mask_of_axes("softmax", x, mask);
  const bool of_rows = is_last(x, axis);
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), "softmax");
  const OrNull optional{full_mask};
  const auto compute = [&]<class T>(auto block, const T* from, const T* used, T* to) {
    if (!of_rows) return softmax_columns(from, used, full_mask.size(), to, block, view);
    if (used) used += block.first % full_mask.size();
    simd::run(simd::SoftmaxRow<T>{from + block.first, used, to + block.first}, view.n);
  };
  view.for_blocks(std::tie(x, optional, y), compute);
  return y;
}

Tensor softmax_backward(const Tensor& y, const Tensor& dy, Integer axis) {
  require_same_dtype("softmax", y, dy);
  if (y.shape() != dy.shape())
    fail("softmax", "shapes differ: dy {} and y {}", dy.shape(), y.shape());
  const AxisView view("softmax", y, axis);
  const bool of_rows = is_last(y, axis);
  Tensor dx = Tensor::uninitialized(y.shape(), y.dtype(), "softmax");
  const auto compute = [&]<class T>(auto block, const T* value, const T* from, T* to) {
    if (of_rows)
      return softmax_backward_row(value + block.first, from + block.first, to + block.first,
                                  view.n);
    double dot[widest_column_block] = {};
    const auto product = [](T y, T d) { return select(d != 0, y * d, T(0)); };  // even if y is NaN
    view.for_elements(block, [&](Index at, Index j) { dot[j] += product(value[at], from[at]); });
    view.for_elements(block, [&](Index at, Index j) {
      to[at] = product(value[at], from[at] - static_cast<T>(dot[j]));
    });
  };
  view.for_blocks(std::tie(y, dy, dx), compute);
  return dx;
}

Tensor log_sum_exp(const Tensor& x, const Axes& axes, KeepAxes keep) {
  return over_axes("log_sum_exp", x, axes, keep, log_sum_exp_along);
}

Tensor log_softmax(const Tensor& x, Integer axis) {
  const AxisView view("log_softmax", x, axis);
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), "log_softmax");
  const auto compute = [&]<class T>(auto block, const T* from, T* to) {
    for_log_sums(view, block, from, [&](Index j, const T* row, const LogSum<T>& sum) {
      const T log_total = sum.total == 0 ? T(0) : static_cast<T>(simd::log(double{sum.total}));
      const auto write = [=, n = view.n, out = to + j, shift = sum.shift](auto step) {
        for (Index k = 0; k < n; ++k) out[k * step] = row[k] - shift - log_total;
      };
      view.inner == 1 ? write(std::integral_constant<Index, 1>()) : write(view.inner);
    });
  };
  view.for_blocks(std::tie(x, y), compute);
  return y;
}

CrossEntropy cross_entropy_forward(const Tensor& logits, const Tensor& targets, const Tensor& mask,
                                   const Smoothing& smoothing) {
  check_cross_entropy(logits, targets, mask, smoothing);
  const Index n = logits.dim(0), v = logits.dim(1);
  CrossEntropy result{Tensor::uninitialized({n}, logits.dtype(), "cross_entropy"),
                      Tensor::uninitialized({n, 2}, logits.dtype(), "cross_entropy")};
  const auto* target = targets.data<std::int32_t>();
  const OrNull weights{mask};
  const auto compute = [&]<class T>(Index row, const T* x, const T* weight, T* loss, T* norm) {
    loss[row] = norm[2 * row] = norm[2 * row + 1] = 0;
    if (weight && weight[row] == 0) return;
    const T* from = x + row * v;
    const LogSum<T> sum = log_sum_of_row(from, v);
    const double shift = sum.shift, total = sum.total, epsilon = smoothing.epsilon;
    double value = simd::log(total) - (1 - epsilon) * (from[target[row]] - shift);
    if (epsilon > 0) {
      const auto below = [&](Index i) { return from[i] - shift; };
      double total_below = sum_in_lanes(v, below);
      for (const std::int32_t column : smoothing.unsmoothed) total_below -= below(column);
      if (std::isnan(total_below)) {  // -∞ was subtracted from -∞
        total_below = sum_in_lanes(v, [&](Index i) {
          return std::ranges::count(smoothing.unsmoothed, i) > 0 ? 0 : below(i);
        });
      }
      value -= epsilon * total_below / static_cast<double>(v - std::ssize(smoothing.unsmoothed));
    }
    if (total == 0) value = std::numeric_limits<double>::infinity();
    loss[row] = static_cast<T>(value);
    if (weight) loss[row] *= weight[row];
    norm[2 * row] = sum.shift;
    norm[2 * row + 1] = total == 0 ? T(0) : static_cast<T>(1 / total);
  };
  parallel_rows("cross_entropy", std::tie(logits, weights, result.loss, result.norms), n,
                cross_entropy_rows, compute);
  return result;
}

Tensor cross_entropy_backward(Tensor logits, const Tensor& targets, const Tensor& mask,
                              const Tensor& norms, double scale, const Smoothing& smoothing) {
  check_cross_entropy(logits, targets, mask, smoothing);
  ShapeCheck("cross_entropy")("logits", logits, "N V")("norms", norms, "N 2");
  const Index n = logits.dim(0), v = logits.dim(1);
  Tensor result = logits.unique()
                      ? logits
                      : Tensor::uninitialized(logits.shape(), logits.dtype(), "cross_entropy");
  const auto* target = targets.data<std::int32_t>();
  const OrNull weights{mask};
  // If smoothing is 0, all columns may be unsmoothed.
  const auto others = static_cast<double>(std::max<Index>(1, v - std::ssize(smoothing.unsmoothed)));
  const auto compute = [&]<class T>(Index row, const T* x, const T* weight, const T* norm, T* dx) {
    T* to = dx + row * v;
    const T shift = norm[2 * row], factor = norm[2 * row + 1];
    const T by = static_cast<T>(scale) * (weight ? weight[row] : T(1));
    if (factor == 0 || by == 0)  // masked, all -∞, or discarded
      return static_cast<void>(std::fill_n(to, v, T(0)));
    const T kept = static_cast<T>(1 - smoothing.epsilon),
            even = static_cast<T>(smoothing.epsilon / others);
    const Index at = target[row];
    T p = x[row * v + at] - shift;
    simd::exp(&p, &p, 1);
    simd::run(simd::SoftmaxGradientRow<T>{x + row * v, shift, factor * by, even * by, to}, v);
    to[at] = (p * factor - kept - even) * by;
    for (std::size_t i = 0; i < smoothing.unsmoothed.size() && even > 0; ++i)
      to[smoothing.unsmoothed[i]] += even * by;
  };
  parallel_rows("cross_entropy", std::tie(std::as_const(logits), weights, norms, result), n,
                cross_entropy_rows, compute);
  return result;
}

/// Rows per tile. Each tile has its own partial sums of dgain and dbias.
constexpr Index tile_rows = 64;

LayerNormForward layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias,
                                    double epsilon) {
  require_same_dtype("layer_norm", x, gain);
  require_same_dtype("layer_norm", x, bias);
  ShapeCheck check("layer_norm");
  check("x", x, "... N")("gain", gain, "N")("bias", bias, "N");
  if (!(epsilon >= 0 && std::isfinite(epsilon)))
    fail("layer_norm", "epsilon = {:g} is not in [0, inf)", epsilon);
  const Index n = check['N'], rows = x.shape().product(0, x.rank() - 1);
  LayerNormForward result{Tensor::uninitialized(x.shape(), x.dtype(), "layer_norm"),
                          Tensor::uninitialized({rows, 4}, x.dtype(), "layer_norm")};
  const auto compute = [&]<class T>(Index row, const T* from, const T* g, const T* b, T* y,
                                    T* moments) {
    simd::run(simd::LayerNormRow<T>{from + row * n, g, b, static_cast<T>(epsilon), y + row * n,
                                    moments + row * 4},
              n);
  };
  parallel_rows("layer_norm", std::tie(x, gain, bias, result.y, result.moments), n == 0 ? 0 : rows,
                tile_rows, compute);
  return result;
}

LayerNormBackward layer_norm_backward(const Tensor& x, const Tensor& gain,
                                      const LayerNormForward& forward, const Tensor& dy) {
  const Index n = x.dim(-1), rows = forward.moments.dim(0);
  const Index tiles = ceil_div(rows, tile_rows);
  Tensor dx = Tensor::uninitialized(x.shape(), x.dtype(), "layer_norm");
  Tensor parts = zeros({2, tiles, n}, x.dtype());  // partial sums of dgain and of dbias
  const auto compute = [&]<class T>(Index row, const T* from, const T* g, const T* dy_data,
                                    const T* moments, T* dx_data, T* parts_data) {
    if (is_zero(dy_data + row * n, n))
      return static_cast<void>(std::fill_n(dx_data + row * n, n, T(0)));
    T* dgain = parts_data + row / tile_rows * n;
    simd::run(simd::LayerNormBackwardRow<T>{from + row * n, g, moments + row * 4, dy_data + row * n,
                                            dx_data + row * n, dgain, dgain + tiles * n},
              n);
  };
  parallel_rows("layer_norm", std::tie(x, gain, dy, forward.moments, dx, parts), n == 0 ? 0 : rows,
                tile_rows, compute);
  return {dx, sum(parts[0], {0}), sum(parts[1], {0})};
}

Tensor sparsemax(const Tensor& x, Integer axis, const Mask& mask) {
  const AxisView view("sparsemax", x, axis);
  const Tensor full_mask = mask_of_axes("sparsemax", x, mask);
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), "sparsemax");
  const OrNull optional{full_mask};
  const auto compute = [&]<class T>(auto block, const T* from, const T* used, T* to) {
    const auto [first, width] = block;
    for (Index j = first; j < first + width; ++j) {
      // The mask repeats over the outer axes.
      sparsemax_column(from + j, to + j, view.n, view.inner, [&](Index i) {
        return !used || used[(j + i * view.inner) % full_mask.size()] != 0;
      });
    }
  };
  view.for_blocks(std::tie(x, optional, y), compute);
  return y;
}

Tensor sparsemax_backward(const Tensor& y, const Tensor& dy, Integer axis) {
  const AxisView view("sparsemax", y, axis);
  Tensor dx = Tensor::uninitialized(y.shape(), y.dtype(), "sparsemax");
  const auto compute = [&]<class T>(auto block, const T* value, const T* from, T* to) {
    double total[widest_column_block] = {}, count[widest_column_block] = {};
    view.for_elements(block, [&](Index at, Index j) {
      if (!(value[at] <= 0)) total[j] += from[at], ++count[j];
    });
    view.for_elements(block, [&](Index at, Index j) {
      to[at] = value[at] <= 0 ? T(0) : from[at] - static_cast<T>(total[j] / count[j]);
    });
  };
  view.for_blocks(std::tie(y, dy, dx), compute);
  return dx;
}

}  // namespace attune
