// The thread pool, and the rules of thread safety.
//
// * Threads that share no objects may run at the same time: training or decoding, each
//   with its model.
// * Several threads may read a shared model, tensor or vocabulary at once. The functions start,
//   step, loss, search and translate only read. So does backward, which changes no variable.
// * A thread may write to a shared object (Adam::step, load, mutable_data) only while no other
//   thread uses it.
// * An optimiser, a Random and the history of a Var must be used by one thread at a time.
// * NoGrad, Training, InPrecision, nn::InLayer and gradcheck affect the thread that created them, and
//   the tiles of its parallel_for in other threads.
// * The pool works for one thread at a time. If another thread calls parallel_for meanwhile, that
//   thread runs all of its tiles itself. The results are the same bit for bit.
// * Tiles run in the caller's floating-point mode: rounding, flushing of subnormals, traps (only
//   rounding with C libraries other than glibc).
// * std::exit in a tile ends the process without waiting for the other tiles.
// * After fork(), the child process does not have the threads of the pool: it may only call exec,
//   unless the parent called set_threads(1) before.
#pragma once

#include <algorithm>

#include <attune/tensor/shape.hpp>

namespace attune {

/// Number of threads: ATTUNE_THREADS if set, else the number of CPUs that this process may run on,
/// or less if a container's CPU quota is less.
int threads();

/// Sets the number of threads. Throws unless 1 <= n <= 1024, or in a tile that the pool computes.
void set_threads(Integer n);

namespace detail {
void run_tiles(Index tiles, void (*run)(void* body, Index tile), void* body);
}  // namespace detail

/// Calls body(tile) once for every tile in [0, tiles), spread over the pool. The caller chooses the
/// tiles by the shape of the work, never by the number of threads, so that results do not depend on
/// it. A nested parallel_for runs in the thread of its tile. The first exception of a tile is rethrown
/// here.
///
/// Every tile begins with the caller's thread state (detail::ThreadState): precision, path of the
/// layer, NoGrad, training mode, the pullback that runs. A tile changes it only by scope guards,
/// which restore it. The Random of training mode is shared by all tiles and not synchronised: tiles
/// that draw from it must lock, and which tile draws which numbers then depends on the schedule.
/// For reproducible results use nn::Training with one Random per tile.
template <class Body>
void parallel_for(Integer tiles, const Body& body) {
  if (tiles == 1) return static_cast<void>(body(Index{0}));
  detail::run_tiles(
      tiles, [](void* b, Index tile) { (*static_cast<const Body*>(b))(tile); },
      const_cast<Body*>(&body));
}

/// parallel_for over [0, n) in ranges of `tile` elements: body(begin, end).
template <class Body>
void parallel_ranges(Integer n, Integer tile, const Body& body) {
  if (n <= 0) return;
  parallel_for(ceil_div(n, tile),
               [&](Index i) { body(i * tile, std::min<Index>(n, (i + 1) * tile)); });
}

/// parallel_ranges with body(i) for each element.
template <class Body>
void parallel_each(Integer n, Integer tile, const Body& body) {
  parallel_ranges(n, tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) body(i);
  });
}

/// Bytes per tile when copying memory.
inline constexpr Index copy_tile = 128 * 1024;
}  // namespace attune
