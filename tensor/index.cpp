#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

/// Extents of gather's result.
Shape gathered_shape(const Shape& x, const Shape& ids, int axis) {
  std::vector<Index> extents(x.begin(), x.begin() + axis);
  extents.insert(extents.end(), ids.begin(), ids.end());
  extents.insert(extents.end(), x.begin() + axis + 1, x.end());
  return Shape(extents);
}

void require_rows_fit(const char* operation, const Tensor& x, const Tensor& ids, const Tensor& rows,
                      int axis) {
  if (rows.shape() != gathered_shape(x.shape(), ids.shape(), axis))
    fail(operation, "shapes do not fit: ids {}, rows {}, target {}", ids.shape(), rows.shape(),
         x.shape());
}

/// Calls copy(offset in x, offset in the rows, bytes) for each row that ids selects along an axis.
template <class F>
void for_rows(const char* operation, const Tensor& x, const Tensor& ids, int axis, F copy) {
  const Index n = x.dim(axis), count = ids.size();
  const Index bytes =
      x.shape().product(axis + 1, x.rank()) * static_cast<Index>(size_of(x.dtype()));
  const auto* id = checked_ids(operation, "id", ids, n);
  const Index runs = std::max<Index>(1, copy_tile / std::max<Index>(1, count * bytes));
  parallel_each(x.shape().product(0, axis), runs, [&](Index run) {
    for (Index i = 0; i < count; ++i)
      copy((run * n + id[i]) * bytes, (run * count + i) * bytes, bytes);
  });
}

/// Terms of one sum that scatter_add adds in T. More, and terms whose sum overflows T, are added in
/// double.
constexpr Index most_terms = 512;

}  // namespace

Tensor gather(const Tensor& x, const Tensor& ids, Integer axis) {
  axis = x.shape().axis(axis, "gather");
  require_i32("gather", "ids", ids);
  Tensor y =
      Tensor::uninitialized(gathered_shape(x.shape(), ids.shape(), axis), x.dtype(), "gather");
  for_rows("gather", x, ids, axis,
           [from = bytes_of(x).data(), to = mutable_bytes_of(y).data()](
               Index row, Index at, Index bytes) { std::memcpy(to + at, from + row, bytes); });
  return y;
}

Tensor scatter_add(const Tensor& x, const Tensor& ids, const Tensor& rows, Integer axis) {
  Tensor y = x.clone();
  scatter_add_in_place(y, ids, rows, axis);
  return y;
}

void scatter_add_in_place(Tensor& to, const Tensor& ids, const Tensor& rows, Integer axis) {
  require_same_dtype("scatter_add", to, rows);
  axis = to.shape().axis(axis, "scatter_add");
  const Index extent = to.dim(axis), n = ids.size(), outer = to.shape().product(0, axis),
              width = to.shape().product(axis + 1, to.rank());
  const auto* id = checked_ids("scatter_add", "id", ids, extent);
  require_rows_fit("scatter_add", to, ids, rows, axis);
  if (is_exact_alias("scatter_add", rows, to))
    fail("scatter_add", "rows and target are the same tensor");
  std::vector<Index> begin(extent + 2), order(n);  // the indices of each id, in their order
  for (Index i = 0; i < n; ++i) ++begin[id[i] + 2];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  for (Index i = 0; i < n; ++i) order[begin[id[i] + 1]++] = i;
  visit_elements("scatter_add", std::tie(rows, to), [&]<class T>(const T* from, T* target) {
    std::vector<double> wide(width);
    const auto is_finite = [](T v) { return std::isfinite(v); };
    for (Index run = 0; run < outer * extent; ++run, target += width) {
      const Index first = begin[run % extent], count = begin[run % extent + 1] - first;
      const auto add_to = [&](auto* sum) {
        for (const Index i : std::span(order).subspan(first, count)) {
          for (Index j = 0; j < width; ++j) sum[j] += from[(run / extent * n + i) * width + j];
        }
      };
      if (count > 1) std::copy_n(target, width, wide.begin());
      if (count <= most_terms) add_to(target);
      if (count <= 1 || (count <= most_terms && std::all_of(target, target + width, is_finite)))
        continue;
      add_to(wide.data());
      std::ranges::transform(wide, target, [](double v) { return static_cast<T>(v); });
    }
  });
}

Tensor scatter(const Tensor& x, const Tensor& ids, const Tensor& rows, Integer axis) {
  require_same_dtype("scatter", x, rows);
  axis = x.shape().axis(axis, "scatter");
  require_rows_fit("scatter", x, ids, rows, axis);
  Tensor y = x.clone();
  for_rows("scatter", x, ids, axis,
           [from = bytes_of(rows).data(), to = mutable_bytes_of(y).data()](
               Index row, Index at, Index bytes) { std::memcpy(to + row, from + at, bytes); });
  return y;
}

Tensor flat_indices_along_axis(const Shape& shape, const Tensor& ids, Integer axis) {
  axis = shape.axis(axis, "take_along_axis");
  if (ids.rank() != shape.rank() || ids.shape().with(axis, 0) != shape.with(axis, 0))
    fail("take_along_axis", "ids {} differ from x {} outside axis {}", ids.shape(), shape, axis);
  require_i32_indices("take_along_axis", shape.size());
  const auto* id = checked_ids("take_along_axis", "id", ids, shape[axis]);
  const Index inner = shape.product(axis + 1, shape.rank()), slab = ids.dim(axis) * inner;
  Tensor indices = Tensor::uninitialized(ids.shape(), DType::i32, "take_along_axis");
  auto* to = indices.mutable_data<std::int32_t>();
  for (Index i = 0; i < ids.size(); ++i)
    to[i] = static_cast<std::int32_t>((i / slab * shape[axis] + id[i]) * inner + i % inner);
  return indices;
}

Tensor argsort(const Tensor& x, Integer axis, Order order) {
  return argsort(x, x.dim(x.shape().axis(axis, "argsort")), axis, order);
}

Tensor argsort(const Tensor& x, Integer k, Integer axis, Order order, const char* operation) {
  const Tensor rows = transpose(x.dtype() == DType::i32 ? x.to(DType::f64) : x,
                                x.shape().axis(axis, operation), -1);
  const Index n = rows.dim(-1);
  if (k < 0 || k > n) fail(operation, "k = {} is not in 0 to {}", k, n);
  require_i32_indices(operation, n);
  Tensor y = Tensor::uninitialized(rows.shape().with(-1, k), DType::i32, operation);
  auto* indices = y.mutable_data<std::int32_t>();
  parallel_rows(operation, std::tie(rows), n == 0 ? 0 : rows.size() / n, rows_of_tile(16 * n),
                [&](Index row, const auto* from) {
                  from += row * n;
                  std::vector<std::int32_t> sorted(n);
                  std::iota(sorted.begin(), sorted.end(), 0);
                  const auto is_less = [&](std::int32_t a, std::int32_t b) {
                    return from[a] < from[b] || (from[b] != from[b] && from[a] == from[a]);
                  };
                  std::partial_sort(sorted.begin(), sorted.begin() + k, sorted.end(),
                                    [&](std::int32_t a, std::int32_t b) {
                                      const bool up = order == Order::ascending;
                                      if (is_less(a, b)) return up;
                                      return is_less(b, a) ? !up : a < b;
                                    });
                  std::copy_n(sorted.begin(), k, indices + row * k);
                });
  return transpose(y, axis, -1);
}

Tensor nonzero(const Tensor& x) {
  require_i32_indices("nonzero", x.size());
  const auto used = not_equal(x, 0).to_vector<std::int32_t>();
  std::vector<std::int32_t> indices;
  for (Index i = 0; i < x.size(); ++i) {
    if (used[i] == 0) continue;
    const auto at = element_index(x.shape(), i);
    for (int axis = 0; axis < x.rank(); ++axis)
      indices.push_back(static_cast<std::int32_t>(at[axis]));
  }
  const Index count = std::ranges::count(used, 1);
  return Tensor::of<std::int32_t>({count, x.rank()}, indices);
}

Tensor one_hot(const Tensor& ids, Integer n, DType dtype) {
  checked_ids("one_hot", "id", ids, n);
  return equal(ids.reshape(ids.shape().inserted(-1, 1)), arange(n)).to(dtype);
}

Tensor segment_argmax(const Tensor& x, const Tensor& segments, Integer n) {
  ShapeCheck("segment_max")("x", x.shape().rank() == 0 ? x.shape() : Shape{x.dim(0)}, "N")(
      "segments", segments, "N");
  const auto* segment = checked_ids("segment_max", "segment", segments, n);
  const Index width = x.shape().product(1, x.rank());
  Tensor indices = full(x.shape().with(0, n), -1, DType::i32);
  auto* index = indices.mutable_data<std::int32_t>();
  visit_elements("segment_max", std::tie(x), [&](const auto* from) {
    for (Index i = 0; i < x.size(); ++i) {
      std::int32_t& best = index[segment[i / width] * width + i % width];
      const auto v = from[i], before = from[std::max(best, 0) * width + i % width];
      if (best < 0 || v > before || (v != v && before == before))
        best = static_cast<std::int32_t>(i / width);
    }
  });
  return indices;
}

}  // namespace attune
