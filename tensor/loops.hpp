// Loops over the elements of tensors: dispatch on the element type, and tiles for the thread pool.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

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
constexpr Index rows_of_tile(Index work) {
  return std::max<Index>(1, elementwise_tile / std::max<Index>(1, work));
}

/// The loop of an operation over [0, rows), in tiles of `tile` rows spread over the pool. Calls
/// f(row, pointers...) for each row, or f(begin, end, pointers...) for each tile if f accepts that.
/// The pointers are to the elements of the tensors, const if the tensor is:
///     parallel_rows("tanh", std::tie(x, y), x.size(), elementwise_tile,
///                   [](Index i, const auto* from, auto* to) { to[i] = std::tanh(from[i]); });
/// Throws as visit_elements does.
template <class Tensors, class F>
void parallel_rows(const char* operation, const Tensors& tensors, Index rows, Index tile,
                   const F& f) {
  const auto compute = [&]<class T, std::size_t... I>(T, std::index_sequence<I...>) {
    const std::tuple data{detail::elements<T>(std::get<I>(tensors))...};
    parallel_for(ceil_div(rows, tile), [&](Index i) {
      const Index begin = i * tile, end = std::min(rows, begin + tile);
      if constexpr (std::is_invocable_v<const F&, Index, Index, decltype(get<I>(data))...>) {
        f(begin, end, get<I>(data)...);
      } else {
        for (Index row = begin; row < end; ++row) f(row, get<I>(data)...);
      }
    });
  };
  visit_floating(operation, get<0>(tensors), compute,
                 std::make_index_sequence<std::tuple_size_v<Tensors>>());
}

}  // namespace attune
