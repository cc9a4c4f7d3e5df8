// Loops over the elements of tensors: dispatch on the element type, and tiles for the thread pool.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>

#include <attune/tensor/tensor.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {

/// Calls f with a zero of the tensor's element type, followed by `more`:
///     visit_floating("tanh", x, [&](auto zero) {...})
/// Throws an Error that begins with `operation` if x is i32, or if f fails to allocate memory.
template <class F, class... More>
decltype(auto) visit_floating(const char* operation, const Tensor& x, F f, More... more) {
  require_floating(operation, x);
  try {
    return x.dtype() == DType::f32 ? f(0.0f, more...) : f(0.0, more...);
  } catch (const OutOfMemory& error) {
    error.throw_as(operation);
  }
}

namespace detail {
template <class T>
const T* elements(const Tensor& x) {
  return x.data<T>();
}
template <class T>
T* elements(Tensor& x) {
  return x.mutable_data<T>();
}
/// Null if the tensor is undefined.
template <class T, class MaybeConst>
auto elements_or_null(MaybeConst& x) {
  return x.defined() ? elements<T>(x) : nullptr;
}
/// Marks a tensor as possibly undefined, in a tuple for visit_elements: its pointer is then null.
struct OrNull {
  const Tensor& x;
};
template <class T>
const T* elements(const OrNull& of) {
  return elements_or_null<T>(of.x);
}
}  // namespace detail

/// Calls f with pointers to the elements of several tensors; the pointer is const if the tensor is:
///     visit_elements("tanh", std::tie(x, y), [&]<class T>(const T* from, T* to) {...});
/// Throws unless all tensors have the dtype of the first one, f32 or f64.
template <class Tensors, class F>
decltype(auto) visit_elements(const char* operation, const Tensors& tensors, F f) {
  return visit_floating(operation, std::get<0>(tensors), [&](auto zero) {
    const auto pointers_of = [](auto&... x) {
      return std::tuple{detail::elements<decltype(zero)>(x)...};  // in their order
    };
    return std::apply(f, std::apply(pointers_of, tensors));
  });
}

/// Elements per tile of elementwise operations: enough to amortise the dispatch to a thread.
inline constexpr Index elementwise_tile = 16384;
/// Rows per tile, if one row costs as much as `work` elements of an elementwise operation.
constexpr Index rows_of_tile(Integer work) {
  return std::max<Index>(1, elementwise_tile / std::max<Index>(1, work));
}

/// The loop of an operation over [0, rows), in tiles of `tile` rows spread over the pool. Calls
/// f(row, pointers...) for each row, or f(begin, end, pointers...) for each tile if f accepts that.
/// The pointers are to the elements of the tensors, const if the tensor is:
///     parallel_rows("tanh", std::tie(x, y), x.size(), elementwise_tile,
///                   [](Index i, const auto* from, auto* to) { to[i] = std::tanh(from[i]); });
/// Throws as visit_elements does.
template <class Tensors, class F>
void parallel_rows(const char* operation, const Tensors& tensors, Integer rows, Integer tile,
                   const F& f) {
  visit_elements(operation, tensors, [&](auto*... data) {
    parallel_for(ceil_div(rows, tile), [&](Index i) {
      const Index begin = i * tile, end = std::min<Index>(rows, begin + tile);
      if constexpr (std::is_invocable_v<const F&, Index, Index, decltype(data)...>) {
        f(begin, end, data...);
      } else {
        for (Index row = begin; row < end; ++row) f(row, data...);
      }
    });
  });
}

namespace detail {

/// Most columns that a kernel processes together.
inline constexpr Index widest_column_block = 64;

/// A tensor of f32 or f64 seen along one axis, as (outer, n, inner). A column is the n elements
/// along the axis. A block is up to `widest_column_block` neighbouring columns of one outer index.
struct AxisView {
  const char* name;  // of the operation
  Index outer, n, inner;
  AxisView(const char* operation, const Tensor& x, Integer axis) : name(operation) {
    require_floating(operation, x);
    axis = x.shape().axis(axis, operation);
    outer = x.shape().product(0, axis);
    n = x.dim(axis);
    inner = x.shape().product(axis + 1, x.rank());
  }

  /// The offset of a block's first element, and its number of columns. Rows are `inner` apart.
  struct Block {
    Index first, width;
  };

  /// parallel_rows over the blocks (none if the axis is empty): calls body(block, pointers...).
  template <class Tensors, class Body>
  void for_blocks(const Tensors& tensors, const Body& body) const {
    const Index of_slab = ceil_div(inner, widest_column_block);
    const auto run = [&](Index i, auto*... data) {
      const Index column = i % of_slab * widest_column_block;
      const Block block{i / of_slab * n * inner + column,
                        std::min<Index>(widest_column_block, inner - column)};
      body(block, data...);
    };
    parallel_rows(name, tensors, n == 0 ? 0 : outer * of_slab,
                  rows_of_tile(n * std::min<Index>(widest_column_block, inner)), run);
  }

  /// Offset in the result with extent 1 along the axis, for the column that begins at `first` in x.
  Index reduced(Index first) const { return first / (n * inner) * inner + first % (n * inner); }

  /// Calls body(offset, j) for the elements of a block, row by row; j is the column in the block.
  template <class Body>
  void for_elements(const Block& block, const Body& body) const {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < block.width; ++j) body(block.first + i * inner + j, j);
    }
  }
};

/// Whether all elements are 0. A pullback tests the rows of dy: rows that `where` discarded have
/// gradient 0, also if their elements are not finite. The first nonzero element ends the loop.
template <class T>
bool is_zero(const T* x, Index n) {
  return std::all_of(x, x + n, [](T v) { return v == 0; });
}

/// Σ_i f(i) as 8 independent sums, to vectorise. Trailing zeros do not change the result.
template <class F>
double sum_in_lanes(Index n, F f) {
  constexpr Index lanes = 8;
  double sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  for (; i < n; ++i) sums[i % lanes] += f(i);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace detail
}  // namespace attune
