// The one pool of threads, and what several threads may do.
//
// * Threads that share no objects may do anything: train or decode, each with a model of its own.
// * Any number of threads may read a shared model, tensor or vocabulary at once. The functions
//   start, step, loss, search and translate only read, and so does backward, which changes no
//   variable.
// * A thread may write to a shared object (an optimiser's step, load, mutable_data) only while no
//   other thread uses it.
// * An optimiser, a Random and the history of a Var are for one thread at a time.
// * NoGrad, Training and InPrecision affect only the thread that made them.
// * The pool works for one thread at a time. Other threads that call parallel_for meanwhile run all
//   of their tiles themselves, and get the same bits.
// * Tiles run in the caller's floating-point mode: rounding, subnormals to zero, traps (with C
//   libraries other than glibc rounding alone).
// * std::exit in a tile ends the process, and does not wait for the other tiles.
// * After fork(), the child process may only call exec: the threads of the pool do not exist in it.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// How many threads share the work: ATTUNE_THREADS, else the CPUs this process may run on, or fewer
/// where a container's quota is less.
int threads();

/// Changes the number of threads. Not inside a parallel_for. Throws unless 1 <= n <= 1024.
void set_threads(int n);

namespace detail {
/// The CPUs that this process may run on.
std::vector<int> allowed_cpus();

/// CPUs that the quotas of the process's control groups leave to it (cgroup versions 1 and 2),
/// rounded up; the largest int without any. `root` is "/", where proc/ and sys/ are.
int cpu_quota(const std::string& root);

void run_tiles(Index tiles, void (*run)(void* body, Index tile), void* body);
}  // namespace detail

/// Calls body(tile) for every tile in [0, tiles), each once, spread over the pool. The caller cuts
/// the work into tiles by its shape alone, never by the number of threads: then results do not
/// depend on how many there are. A parallel_for inside a tile runs in that tile's thread, and a
/// product there has the caller's precision. The first exception of a tile is thrown again here.
template <class Body>
void parallel_for(Index tiles, const Body& body) {
  if (tiles == 1) return static_cast<void>(body(Index{0}));
  detail::run_tiles(
      tiles, [](void* b, Index tile) { (*static_cast<const Body*>(b))(tile); },
      const_cast<Body*>(&body));
}

/// parallel_for over [0, n) in tiles of `tile` elements: body(begin, end).
template <class Body>
void parallel_ranges(Index n, Index tile, const Body& body) {
  if (n <= 0) return;
  parallel_for((n + tile - 1) / tile,
               [&](Index i) { body(i * tile, std::min(n, (i + 1) * tile)); });
}

/// The same element by element: body(i).
template <class Body>
void parallel_each(Index n, Index tile, const Body& body) {
  parallel_ranges(n, tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}

/// Bytes that one thread copies.
inline constexpr Index copy_tile = 128 * 1024;
/// Elements of one tile of elementwise work: large enough to hide the cost of handing it out.
inline constexpr Index elementwise_tile = 16384;
/// Rows in one tile, where a row has the work of so many elements.
constexpr Index rows_of_tile(Index work) {
  return std::max<Index>(1, elementwise_tile / std::max<Index>(1, work));
}

/// The loop of an operation: f(row, pointers...) for every row in [0, rows), or f(begin, end,
/// pointers...) for tiles of rows, spread over the pool, with pointers to the elements of the
/// tensors, to write where a tensor is not const:
///     parallel_rows("tanh", std::tie(x, y), x.size(), elementwise_tile,
///                   [](Index i, const auto* from, auto* to) { to[i] = std::tanh(from[i]); });
/// All have the dtype of the first one. Throws as visit_floating does.
template <class Tensors, class F>
void parallel_rows(const char* operation, const Tensors& tensors, Index rows, Index tile,
                   const F& f) {
  const auto compute = [&]<class T, std::size_t... I>(T, std::index_sequence<I...>) {
    const std::tuple data{detail::elements<T>(std::get<I>(tensors))...};
    parallel_for((rows + tile - 1) / tile, [&](Index i) {
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
