#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

/// Bytes of x from `axis` on: of one index of the axes before it.
Index run_bytes(const Tensor& x, int axis) {
  return x.shape().product(axis, x.rank()) * static_cast<Index>(size_of(x.dtype()));
}

/// Copies `count` indices of an axis to another tensor, whose other extents are equal.
void copy_indices(int axis, const Tensor& x, Index begin, Tensor& y, Index y_begin, Index count) {
  const Index step = run_bytes(x, axis + 1), bytes = count * step;
  const Index x_stride = run_bytes(x, axis), y_stride = run_bytes(y, axis);
  const std::byte* from = bytes_of(x).data() + begin * step;
  std::byte* to = mutable_bytes_of(y).data() + y_begin * step;
  const Index runs = x.shape().product(0, axis);
  if (runs == 1) {
    return parallel_ranges(bytes, copy_tile,
                           [&](Index i, Index end) { std::memcpy(to + i, from + i, end - i); });
  }
  parallel_each(runs, std::max<Index>(1, copy_tile / std::max<Index>(1, bytes)),
                [&](Index run) { std::memcpy(to + run * y_stride, from + run * x_stride, bytes); });
}

/// `given`: the range as the caller wrote it, for the message.
void check_range(const char* operation, const Shape& shape, int axis, Index begin, Index end,
                 std::pair<Index, Index> given) {
  if (begin < 0 || begin > end || end > shape[axis])
    fail(operation, "indices {} to {} of axis {} of {} do not exist", given.first, given.second,
         axis, shape);
}

/// Sum of the caller's values. Throws if it does not fit in an Index.
Index checked_sum(const char* operation, std::initializer_list<Index> terms) {
  Index total = 0;
  for (const Index term : terms) {
    if (__builtin_add_overflow(total, term, &total))
      fail(operation, "{} overflows", fmt::join(terms, " + "));
  }
  return total;
}

/// Copies `count` units of `bytes` bytes, which are `stride` bytes apart, to consecutive memory.
void copy_units(const std::byte* from, Index stride, std::byte* to, Index count, Index bytes) {
  const auto copy_all = [&](auto size) {
    for (Index i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * stride, size);
  };
  if (bytes == 4) return copy_all(std::integral_constant<Index, 4>());  // one move, not a call
  if (bytes == 8) return copy_all(std::integral_constant<Index, 8>());
  copy_all(bytes);
}

/// y_i = f(... f(f(start, x_0), x_1) ..., x_i) along an axis, in double.
template <class F>
Tensor cumulative(const char* operation, const Tensor& x, Integer axis, Direction direction,
                  double start, F f) {
  if (x.dtype() == DType::i32)
    return to_i32(operation, cumulative(operation, x.to(DType::f64), axis, direction, start, f));
  const detail::AxisView view(operation, x, axis);
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), operation);
  const auto compute = [&]<class T>(auto block, const T* from, T* to) {
    const auto [first, width] = block;
    double total[detail::widest_column_block];
    std::fill_n(total, width, start);
    for (Index i = 0; i < view.n; ++i) {
      const Index step = direction == Direction::forward ? i : view.n - 1 - i;
      const Index row = first + step * view.inner;
      for (Index j = 0; j < width; ++j)
        to[row + j] = static_cast<T>(total[j] = f(total[j], static_cast<double>(from[row + j])));
    }
  };
  view.for_blocks(std::tie(x, y), compute);
  return y;
}

}  // namespace

Tensor slice(const Tensor& x, Integer axis, Integer begin, Integer end) {
  axis = x.shape().axis(axis, "slice");
  const Index n = x.dim(axis), first = begin + (begin < 0 ? n : 0), last = end + (end < 0 ? n : 0);
  check_range("slice", x.shape(), axis, first, last, {begin, end});
  Tensor y = Tensor::uninitialized(x.shape().with(axis, last - first), x.dtype(), "slice");
  copy_indices(axis, x, first, y, 0, last - first);
  return y;
}

void add_to_slice(Tensor& to, const Tensor& x, Integer axis, Integer begin) {
  require_same_dtype("add_to_slice", to, x);
  axis = to.shape().axis(axis);
  const Index end = checked_sum("add_to_slice", {begin, x.dim(axis)});
  check_range("add_to_slice", to.shape(), axis, begin, end, {begin, end});
  if (to.shape().with(axis, x.dim(axis)) != x.shape())
    fail("add_to_slice", "{} is not a slice along axis {} of {}", x.shape(), axis, to.shape());
  require_no_partial_overlap("add_to_slice", x, to);
  const Index outer = x.shape().product(0, axis), inner = x.shape().product(axis + 1, x.rank());
  const Index run = x.dim(axis) * inner, stride = to.dim(axis) * inner;
  visit_elements("add_to_slice", std::tie(x, to), [&](const auto* from, auto* target) {
    target += begin * inner;
    for (Index o = 0; o < outer; ++o) {
      for (Index i = 0; i < run; ++i) target[o * stride + i] += from[o * run + i];
    }
  });
}

Tensor concat(std::span<const Tensor> parts, Integer axis) {
  if (parts.empty()) fail("concat", "there are no parts");
  for (const Tensor& part : parts)
    if (!part.defined()) fail("concat", "part {} is undefined", &part - parts.data());
  axis = parts[0].shape().axis(axis, "concat");
  Index total = 0;
  for (const Tensor& part : parts) {
    require_same_dtype("concat", parts[0], part);
    if (part.rank() != parts[0].rank() ||
        part.shape().with(axis, 0) != parts[0].shape().with(axis, 0)) {
      fail("concat", "{} and {} differ outside axis {}", parts[0].shape(), part.shape(), axis);
    }
    total += part.dim(axis);
  }
  Tensor y = Tensor::uninitialized(parts[0].shape().with(axis, total), parts[0].dtype(), "concat");
  Index begin = 0;
  for (const Tensor& part : parts) {
    copy_indices(axis, part, 0, y, begin, part.dim(axis));
    begin += part.dim(axis);
  }
  return y;
}

Tensor stack(std::span<const Tensor> parts, Integer axis) {
  if (parts.empty()) fail("stack", "there are no parts");
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) {
    require_same_dtype("stack", parts[0], part);
    if (part.shape() != parts[0].shape())
      fail("stack", "shapes {} and {} differ", parts[0].shape(), part.shape());
    rows.push_back(part.reshape(part.shape().inserted(axis, 1)));
  }
  return concat(rows, axis + (axis < 0 ? rows[0].rank() : 0));
}

Tensor pad(const Tensor& x, Integer axis, Integer before, Integer after, double value) {
  axis = x.shape().axis(axis, "pad");
  if (before < 0 || after < 0)
    fail("pad", "before = {} and after = {} must not be negative", before, after);
  const Index end = checked_sum("pad", {before, x.dim(axis), after});
  Tensor y = Tensor::uninitialized(x.shape().with(axis, end), x.dtype(), "pad");
  fill(y, value);
  copy_indices(axis, x, 0, y, before, x.dim(axis));
  return y;
}

Tensor cumsum(const Tensor& x, Integer axis, Direction direction) {
  return cumulative("cumsum", x, axis, direction, 0, std::plus());
}

Tensor cumprod(const Tensor& x, Integer axis) {
  return cumulative("cumprod", x, axis, Direction::forward, 1, std::multiplies());
}

Tensor cumprod_backward(const Tensor& x, const Tensor& dy, Integer axis) {
  const detail::AxisView view("cumprod", x, axis);
  Tensor dx = Tensor::uninitialized(x.shape(), x.dtype(), "cumprod");
  const auto compute = [&]<class T>(auto block, const T* from, const T* d, T* to) {
    std::vector<double> before(view.n);  // products of the elements before each
    for (Index j = 0; j < block.width; ++j) {
      const auto at = [&](Index i) { return block.first + i * view.inner + j; };
      double product = 1, after = 0;  // after: the sum over k
      for (Index i = 0; i < view.n; ++i) before[i] = std::exchange(product, product * from[at(i)]);
      for (Index i = view.n; i-- > 0;) {
        after += static_cast<double>(d[at(i)]);
        // 0 if all dy_k are 0, even if elements are not finite.
        to[at(i)] = after == 0 ? T(0) : static_cast<T>(before[i] * after);
        if (after != 0) after *= from[at(i)];
      }
    }
  };
  view.for_blocks(std::tie(x, dy, dx), compute);
  return dx;
}

Tensor permute(const Tensor& x, const Axes& axes) {
  std::vector<int> order, all(x.rank());  // order[i]: the axis of x, from 0, that is axis i of y
  for (int axis : axes) order.push_back(x.shape().axis(axis, "permute"));
  std::iota(all.begin(), all.end(), 0);
  if (!std::ranges::is_permutation(order, all))
    fail("permute", "axes ({}) do not name each of {} once", fmt::join(axes, ", "), x.shape());
  // The trailing axes that are not permuted are copied as one unit.
  int moved = x.rank();
  while (moved > 0 && order[moved - 1] == moved - 1) --moved;
  if (moved == 0) return x;
  std::vector<Index> extents, strides;  // strides of y's axes in x, in bytes
  for (int axis : order) {
    extents.push_back(x.dim(axis));
    strides.push_back(run_bytes(x, axis + 1));
  }
  Tensor y = Tensor::uninitialized(Shape(extents), x.dtype(), "permute");
  if (y.size() == 0) return y;
  const auto last = static_cast<std::size_t>(moved - 1);
  const Index unit = run_bytes(x, moved), row = extents[last] * unit;
  const std::byte* from = bytes_of(x).data();
  std::byte* to = mutable_bytes_of(y).data();
  const Index tile = std::max<Index>(1, 4 * elementwise_tile / row);
  parallel_each(y.shape().product(0, moved - 1), tile, [&](Index k) {
    Index offset = 0, rest = k;
    for (std::size_t axis = last; axis-- > 0;) {
      offset += rest % extents[axis] * strides[axis];
      rest /= extents[axis];
    }
    copy_units(from + offset, strides[last], to + k * row, extents[last], unit);
  });
  return y;
}

Tensor transpose(const Tensor& x, Integer axis_a, Integer axis_b) {
  std::vector<int> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[x.shape().axis(axis_a, "transpose")], axes[x.shape().axis(axis_b, "transpose")]);
  return permute(x, axes);
}

Mask mask_of(std::span<const Index> lengths, DType dtype) {
  if (lengths.empty()) fail("mask_of", "there are no lengths");
  const auto batch = static_cast<Index>(lengths.size());
  Tensor mask = zeros({std::max<Index>(0, *std::ranges::max_element(lengths)), batch});
  float* to = mask.mutable_data<float>();
  for (Index b = 0; b < batch; ++b) {
    const Index length = lengths[b];
    if (length < 1)
      fail("mask_of", "the length of sequence {} is {}, but must be at least 1", b, length);
    for (Index t = 0; t < length; ++t) to[t * batch + b] = 1;
  }
  return Mask::unchecked(mask.to(dtype));
}

std::vector<Index> lengths_of(const Mask& mask) {
  ShapeCheck check("lengths_of");
  check("mask", mask, "T B");
  const Tensor words = mask.to(DType::f32);
  std::vector<Index> lengths;
  for (Index b = 0; b < check['B']; ++b) {
    Index& length = lengths.emplace_back(0);
    for (Index t = 0; t < check['T']; ++t) {
      if (words.at<float>({t, b}) == 0) continue;
      if (t != length++)
        fail("lengths_of",
             "column {} of the mask {} has a 1 after a 0, but padding after the steps was expected",
             b, mask.shape());
    }
  }
  return lengths;
}

void require_valid(const UnfoldOptions& o) {
  if (o.width < 1 || o.stride < 1 || o.before < 0 || o.after < 0)
    fail("unfold", "width {} and stride {} must be at least 1, before {} and after {} at least 0",
         o.width, o.stride, o.before, o.after);
}

Index windows_of(Integer steps, const UnfoldOptions& o) {
  require_valid(o);
  const Index last = checked_sum("unfold", {steps, o.before, o.after}) - o.width;
  return last < 0 ? 0 : last / o.stride + 1;
}

Tensor unfold(const Tensor& x, const UnfoldOptions& o) {
  ShapeCheck("unfold")("x", x, "T B D");
  const Index steps = x.dim(0), batch = x.dim(1), d = x.dim(2), windows = windows_of(steps, o);
  Index row_size;
  if (__builtin_mul_overflow(o.width, d, &row_size))
    fail("unfold", "{} x {} overflows", o.width, d);
  Tensor y = Tensor::uninitialized({windows, batch, row_size}, x.dtype(), "unfold");
  const auto compute = [&]<class T>(Index row, const T* from, T* to) {
    const Index first = row / batch * o.stride - o.before, b = row % batch;
    for (Index k = 0; k < o.width; ++k) {
      T* part = to + (row * o.width + k) * d;
      const Index t = first + k;
      if (t < 0 || t >= steps) {
        std::fill_n(part, d, T(0));
      } else {
        std::copy_n(from + (t * batch + b) * d, d, part);
      }
    }
  };
  parallel_rows("unfold", std::tie(x, y), windows * batch, rows_of_tile(o.width * d), compute);
  return y;
}

Tensor unfold_backward(const Tensor& dy, Integer steps, const UnfoldOptions& o) {
  ShapeCheck("unfold_backward")("dy", dy, "T B N");
  const Index windows = windows_of(steps, o), batch = dy.dim(1), d = dy.dim(2) / o.width;
  if (dy.dim(0) != windows || dy.dim(2) != d * o.width)
    fail("unfold_backward", "dy {} does not fit {} windows of {} steps", dy.shape(), windows,
         o.width);
  Tensor dx = zeros({steps, batch, d}, dy.dtype());
  const auto compute = [&](Index row, const auto* from, auto* to) {
    const Index at = row / batch + o.before, b = row % batch;
    // All windows w with w · stride <= at < w · stride + width.
    const Index last = std::min(windows - 1, at / o.stride);
    const Index first = at < o.width ? 0 : (at - o.width) / o.stride + 1;
    for (Index w = first; w <= last; ++w) {
      const auto* part = from + ((w * batch + b) * o.width + at - w * o.stride) * d;
      for (Index i = 0; i < d; ++i) to[row * d + i] += part[i];
    }
  };
  parallel_rows("unfold_backward", std::tie(dy, dx), steps * batch, rows_of_tile(o.width * d),
                compute);
  return dx;
}

}  // namespace attune
