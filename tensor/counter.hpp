// Counters that threads share, in plain arithmetic while the process has but one thread: a locked
// instruction costs as much as ten others, and the smallest models do little else.
#pragma once

#include <atomic>

#include <attune/tensor/shape.hpp>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace attune::detail {

/// Whether no other thread exists; false where the C library does not tell. glibc clears its flag
/// in the thread that starts the second one, before that one runs, and 2.36 never sets it again. So
/// while it is set, nobody can come between the load and the store below, and both happen before
/// all that a later thread does.
inline bool single_threaded() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// Adds to a counter and returns what it was before. `order` is that of the atomic operation.
template <class T>
T fetch_add(std::atomic<T>& counter, T amount,
            std::memory_order order = std::memory_order_relaxed) {
  if (!single_threaded()) return counter.fetch_add(amount, order);
  const T before = counter.load(std::memory_order_relaxed);
  counter.store(before + amount, std::memory_order_relaxed);
  return before;
}

/// Removes a reference and returns whether it was the last one. Each removal is a release, and the
/// last one also an acquire: all that other owners did happens before what the caller does next.
/// Adding a reference needs no ordering, as it is copied from one that still exists.
template <class T>
bool drop_reference(std::atomic<T>& references) {
  return fetch_add(references, T(-1), std::memory_order_acq_rel) == 1;
}

}  // namespace attune::detail
