// The one pool of threads.
#pragma once

#include <algorithm>
#include <type_traits>

#include <attune/tensor/dtype.hpp>

namespace attune {

/// How many threads share the work: ATTUNE_THREADS, else the CPUs this process may run on.
int threads();

/// Changes the number of threads. Not while a parallel_for is running. Throws when n < 1.
void set_threads(int n);

namespace detail {
void run_tiles(Index tiles, void (*run)(void* body, Index tile), void* body);
}

/// Calls body(tile) for every tile in [0, tiles), each once, spread over the pool. The caller cuts
/// the work into tiles by its shape alone, never by the number of threads: then results do not
/// depend on how many there are. A parallel_for inside a tile runs in that tile's thread. The first
/// exception of a tile is thrown again here.
template <class Body>
void parallel_for(Index tiles, Body&& body) {
  if (tiles == 1) return static_cast<void>(body(Index{0}));
  using Plain = std::remove_reference_t<Body>;
  detail::run_tiles(
      tiles, [](void* b, Index tile) { (*static_cast<Plain*>(b))(tile); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// parallel_for over [0, n) in tiles of `tile` elements: body(begin, end).
template <class Body>
void parallel_ranges(Index n, Index tile, Body&& body) {
  if (n <= 0) return;
  parallel_for((n + tile - 1) / tile,
               [&](Index i) { body(i * tile, std::min(n, (i + 1) * tile)); });
}

}  // namespace attune
