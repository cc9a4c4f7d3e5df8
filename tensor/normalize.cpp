#include <cmath>
#include <limits>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune {
namespace {

/// Rows in one tile of work; each tile has its own sums of dgain and dbias.
constexpr Index tile_rows = 64;

}  // namespace

LayerNormForward layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias,
                                    double epsilon) {
  require_same_dtype("layer_norm", x, gain);
  require_same_dtype("layer_norm", x, bias);
  ShapeCheck check("layer_norm");
  check("x", x.shape(), "... N")("gain", gain.shape(), "N")("bias", bias.shape(), "N");
  const Index n = check['N'], rows = x.shape().product(0, x.rank() - 1);
  return visit_floating("layer_norm", x, [&](auto zero) {
    using T = decltype(zero);
    LayerNormForward result{Tensor::uninitialized(x.shape(), x.dtype()),
                            Tensor::uninitialized({rows, 2}, x.dtype())};
    const T *from = x.data<T>(), *g = gain.data<T>(), *b = bias.data<T>();
    T *y = result.y.mutable_data<T>(), *moments = result.moments.mutable_data<T>();
    parallel_ranges(n == 0 ? 0 : rows, tile_rows, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        simd::run(simd::LayerNormRow<T>{from + row * n, g, b, static_cast<T>(epsilon), y + row * n,
                                        moments + row * 2},
                  n);
      }
    });
    return result;
  });
}

LayerNormBackward layer_norm_backward(const Tensor& x, const Tensor& gain,
                                      const LayerNormForward& forward, const Tensor& dy) {
  return visit_floating("layer_norm", x, [&](auto zero) {
    using T = decltype(zero);
    const Index n = x.dim(-1), rows = forward.moments.dim(0);
    const Index tiles = (rows + tile_rows - 1) / tile_rows;
    Tensor dx = Tensor::uninitialized(x.shape(), x.dtype());
    Tensor parts = zeros({2, tiles, n}, x.dtype());  // of dgain and of dbias
    const T *from = x.data<T>(), *g = gain.data<T>(), *dy_data = dy.data<T>();
    const T* moments = forward.moments.data<T>();
    T *dx_data = dx.mutable_data<T>(), *parts_data = parts.mutable_data<T>();
    parallel_ranges(n == 0 ? 0 : rows, tile_rows, [&](Index begin, Index end) {
      T* dgain = parts_data + begin / tile_rows * n;
      for (Index row = begin; row < end; ++row) {
        simd::run(
            simd::LayerNormBackwardRow<T>{from + row * n, g, moments + row * 2, dy_data + row * n,
                                          dx_data + row * n, dgain, dgain + tiles * n},
            n);
      }
    });
    return LayerNormBackward{dx, sum(parts[0], {0}), sum(parts[1], {0})};
  });
}

namespace {

/// Sparsemax of one column, whose elements stand `step` apart. The threshold is found as in
/// Michelot (1986): with the elements above τ as support, τ = (Σ_support x - 1) / |support| grows
/// until the support stays. The largest element is taken off first, so that τ begins at -1.
template <class T, class Used>
void sparsemax_column(const T* x, T* y, Index n, Index step, const Used& used) {
  double largest = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < n; ++i) {
    const double v = x[i * step];
    if (used(i) && !(v <= largest)) largest = v;  // a NaN goes on into τ
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

Tensor sparsemax(const Tensor& x, int axis, const Tensor& mask) {
  return visit_floating("sparsemax", x, [&](auto zero) {
    using T = decltype(zero);
    const detail::AxisView view("sparsemax", x.shape(), axis);
    Tensor y = Tensor::uninitialized(x.shape(), x.dtype());
    const Tensor places = mask.defined() ? detail::mask_of_axes("sparsemax", x, mask) : mask;
    const T *from = x.data<T>(), *mask_data = mask.defined() ? places.data<T>() : nullptr;
    T* to = y.mutable_data<T>();
    detail::for_columns(view, [&](Index first, Index width) {
      for (Index j = first; j < first + width; ++j) {
        // The mask repeats over the outer axes.
        sparsemax_column(from + j, to + j, view.n, view.inner, [&](Index i) {
          return !mask_data || mask_data[(j + i * view.inner) % places.size()] != 0;
        });
      }
    });
    return y;
  });
}

Tensor sparsemax_backward(const Tensor& y, const Tensor& dy, int axis) {
  return visit_floating("sparsemax", y, [&](auto zero) {
    using T = decltype(zero);
    const detail::AxisView view("sparsemax", y.shape(), axis);
    Tensor dx = Tensor::uninitialized(y.shape(), y.dtype());
    const T *value = y.data<T>(), *from = dy.data<T>();
    T* to = dx.mutable_data<T>();
    detail::for_columns(view, [&](Index first, Index width) {
      for (Index j = first; j < first + width; ++j) {
        double total = 0, count = 0;
        for (Index i = 0; i < view.n; ++i) {
          if (value[j + i * view.inner] <= 0) continue;
          total += from[j + i * view.inner];
          ++count;
        }
        const T mean = static_cast<T>(total / std::max(1.0, count));
        for (Index i = 0; i < view.n; ++i) {
          const Index at = j + i * view.inner;
          to[at] = value[at] <= 0 ? T(0) : from[at] - mean;
        }
      }
    });
    return dx;
  });
}

}  // namespace attune
