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
// * Tiles run in the caller's floating-point mode: rounding, subnormals to zero, traps (on CPUs other
//   than x86-64 and 64-bit ARM rounding alone).
// * std::exit in a tile ends the process, and does not wait for the other tiles.
// * After fork(), the child process may only call exec: the threads of the pool do not exist in it.
#pragma once

#include <algorithm>
#include <vector>

#include <attune/tensor/precision.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

/// How many threads share the work: ATTUNE_THREADS, else the CPUs this process may run on.
int threads();

/// Changes the number of threads. Not inside a parallel_for. Throws unless 1 <= n <= 1024.
void set_threads(int n);

namespace detail {
/// The CPUs that this process may run on.
std::vector<int> allowed_cpus();

void run_tiles(Index tiles, void (*run)(void* body, Index tile), void* body);
}  // namespace detail

/// Calls body(tile) for every tile in [0, tiles), each once, spread over the pool. The caller cuts
/// the work into tiles by its shape alone, never by the number of threads: then results do not
/// depend on how many there are. A parallel_for inside a tile runs in that tile's thread, and a
/// product there has the caller's precision. The first exception of a tile is thrown again here.
template <class Body>
void parallel_for(Index tiles, Body&& body) {
  if (tiles == 1) return static_cast<void>(body(Index{0}));
  auto run = [&body, of_caller = precision()](Index tile) {
    detail::thread_precision = of_caller;
    body(tile);
  };
  using Run = decltype(run);
  detail::run_tiles(
      tiles, [](void* r, Index tile) { (*static_cast<Run*>(r))(tile); }, &run);
}

/// parallel_for over [0, n) in tiles of `tile` elements: body(begin, end).
template <class Body>
void parallel_ranges(Index n, Index tile, Body&& body) {
  if (n <= 0) return;
  parallel_for((n + tile - 1) / tile,
               [&](Index i) { body(i * tile, std::min(n, (i + 1) * tile)); });
}

/// The same element by element: body(i).
template <class Body>
void parallel_each(Index n, Index tile, Body&& body) {
  parallel_ranges(n, tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}

}  // namespace attune
