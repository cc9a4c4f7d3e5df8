#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/tensor/unfold.hpp>

namespace attune {
namespace {

constexpr Index tile_elements = 16 * 1024;  // that one thread moves

/// Rows (t, b) of a sequence that are moved together.
Index rows_per_tile(Index elements_of_row) {
  return std::max<Index>(1, tile_elements / std::max<Index>(1, elements_of_row));
}

}  // namespace

Index windows_of(Index steps, const UnfoldOptions& o) {
  if (o.width < 1 || o.stride < 1 || o.before < 0 || o.after < 0) {
    fail("unfold", fmt::format("width {} and stride {} must be at least 1, before {} and after {} "
                               "at least 0",
                               o.width, o.stride, o.before, o.after));
  }
  const Index room = steps + o.before + o.after - o.width;
  return room < 0 ? 0 : room / o.stride + 1;
}

Tensor unfold(const Tensor& x, const UnfoldOptions& o) {
  ShapeCheck("unfold")("x", x.shape(), "T B D");
  const Index steps = x.dim(0), batch = x.dim(1), d = x.dim(2), windows = windows_of(steps, o);
  return visit_floating("unfold", x, [&](auto zero) {
    using T = decltype(zero);
    Tensor y = Tensor::uninitialized({windows, batch, o.width * d}, x.dtype());
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    parallel_ranges(windows * batch, rows_per_tile(o.width * d), [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const Index first = row / batch * o.stride - o.before, b = row % batch;
        for (Index k = 0; k < o.width; ++k) {
          T* part = to + (row * o.width + k) * d;
          const Index t = first + k;
          if (t < 0 || t >= steps) {
            std::fill_n(part, d, zero);
          } else {
            std::copy_n(from + (t * batch + b) * d, d, part);
          }
        }
      }
    });
    return y;
  });
}

Tensor unfold_backward(const Tensor& dy, Index steps, const UnfoldOptions& o) {
  ShapeCheck("unfold_backward")("dy", dy.shape(), "T B N");
  const Index windows = windows_of(steps, o), batch = dy.dim(1), d = dy.dim(2) / o.width;
  if (dy.dim(0) != windows || dy.dim(2) != d * o.width) {
    fail("unfold_backward", fmt::format("dy {} is not of {} windows of {} steps",
                                        to_string(dy.shape()), windows, o.width));
  }
  return visit_floating("unfold_backward", dy, [&](auto zero) {
    using T = decltype(zero);
    Tensor dx = zeros({steps, batch, d}, dy.dtype());
    const T* from = dy.data<T>();
    T* to = dx.mutable_data<T>();
    parallel_ranges(steps * batch, rows_per_tile(o.width * d), [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const Index at = row / batch + o.before, b = row % batch;
        // Windows w with w · stride <= at < w · stride + width.
        const Index last = std::min(windows - 1, at / o.stride);
        const Index first = at < o.width ? 0 : (at - o.width) / o.stride + 1;
        for (Index w = first; w <= last; ++w) {
          const T* part = from + ((w * batch + b) * o.width + at - w * o.stride) * d;
          for (Index i = 0; i < d; ++i) to[row * d + i] += part[i];
        }
      }
    });
    return dx;
  });
}

}  // namespace attune
