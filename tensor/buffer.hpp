// Memory: a cache of freed blocks by size class, and reference-counted buffers for tensors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#if __has_include(<sys/single_threaded.h>)
extern "C" char __libc_single_threaded;  // of glibc
#endif

namespace attune {

/// Memory of the buffers of all tensors, in bytes.
struct BufferStatistics {
  std::size_t in_use;       ///< allocated by tensors now
  std::size_t peak;         ///< maximum of in_use since the start of the process
  std::size_t cached;       ///< freed blocks that are kept for reuse: in_use + cached <= 2 peak,
                            ///< plus at most 1 MiB of small blocks for each other thread
  std::size_t allocations;  ///< calls of the system's allocator; constant in steady state
};
BufferStatistics buffer_statistics();

/// Returns all cached blocks to the system, except small ones in the caches of other threads.
void release_cached_buffers();

namespace detail {

/// True if the process has a single thread; false if the C library does not tell. glibc clears its
/// flag in the thread that starts the second one, before that one runs, and 2.36 never sets it
/// again. So while it is true, no other thread runs, until this thread starts one.
inline bool single_threaded() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

// Counters shared by threads. They use plain loads and stores while the process has a single
// thread: a locked instruction costs as much as ten others, and dominates in the smallest models. No
// other thread can run between the load and the store, and both happen before everything that a
// later thread does.

/// Adds to a counter and returns what it was before. `order` is that of the atomic operation.
template <class T>
T fetch_add(std::atomic<T>& counter, T amount,
            std::memory_order order = std::memory_order_relaxed) {
  if (!single_threaded()) return counter.fetch_add(amount, order);
  const T before = counter.load(std::memory_order_relaxed);
  counter.store(before + amount, std::memory_order_relaxed);
  return before;
}

/// Removes a reference; true if it was the last one. Each removal is a release, and the last one
/// also an acquire: everything that other owners did happens before what the caller does next.
/// Adding a reference needs no ordering, as it is copied from one that still exists.
template <class T>
bool drop_reference(std::atomic<T>& references) {
  return fetch_add(references, T(-1), std::memory_order_acq_rel) == 1;
}

/// A 64-byte aligned block of memory.
struct Block {
  void* memory;
  std::size_t bytes;       // the requested size, rounded up to its size class
  std::size_t size_class;  // the class that the block was allocated for
};

/// Which freed blocks may serve a request: only those of its size class (four classes per power of
/// two, rounded to cache lines), or also blocks of up to twice the size. Larger blocks reduce idle
/// memory when shapes change at every step.
enum class Fit { own_class, larger };

/// A block from the cache, else from the system. If the system has no memory, calls
/// release_cached_buffers and tries again. Throws OutOfMemory if that fails too. Thread-safe.
Block cache_allocate(std::size_t bytes, Fit fit);
void cache_free(const Block& block) noexcept;
/// The same for a block that was allocated with Fit::own_class; `bytes` is the requested size.
void cache_free(void* memory, std::size_t bytes) noexcept;

/// Disables the block cache of the calling thread. For threads of the pool: while one sleeps, other
/// threads could not use the blocks in its cache.
void disable_thread_cache() noexcept;

/// Detects whether a buffer was written after some event (a recorded operation, a packed matrix, a
/// norm). The event stores observe(), which returns the clock and then increments it. A write stores
/// write_stamp() in the buffer. The buffer was written after the event if its stamp is larger.
/// Writes are frequent and events rare, so writes only read the clock. Relaxed order suffices: a
/// write that happens before the event reads at most what observe() returns, a write after it reads
/// more. Without such an order, the program has a data race on the elements anyway.
[[gnu::visibility("default")]] inline std::atomic<std::uint64_t> modification_clock{0};
inline std::uint64_t observe() { return fetch_add(modification_clock, std::uint64_t{1}); }
inline std::uint64_t write_stamp() { return modification_clock.load(std::memory_order_relaxed); }

/// A result computed from a buffer's contents and cached with the buffer.
struct Attachment {
  virtual ~Attachment() = default;
};

/// The header of a block; the elements follow it, 64-byte aligned.
struct alignas(64) Buffer {
  std::atomic<std::uint32_t> references{1};
  std::uint64_t created_at = write_stamp();
  std::atomic<std::uint64_t> modified_at{created_at};  // atomic: several tiles may write to it
  std::size_t bytes = 0, size_class = 0;               // of the block
  std::atomic<Attachment*> attachment{nullptr};        // owned; set once

  std::byte* elements() { return reinterpret_cast<std::byte*>(this + 1); }
};

/// Intrusive reference-counting pointer to a T that has `references` and a function destroy(T*).
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  explicit IntrusivePtr(T* adopted) : pointer_(adopted) {}
  IntrusivePtr(const IntrusivePtr& other) : pointer_(other.pointer_) {
    if (pointer_) fetch_add(pointer_->references, 1u);
  }
  IntrusivePtr(IntrusivePtr&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~IntrusivePtr() {
    if (pointer_ && drop_reference(pointer_->references)) destroy(pointer_);
  }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  /// True if this is the only reference. No other can appear, as references are copied from
  /// existing ones. Acquire: reads through released references happen before the caller's writes.
  bool unique() const {
    return pointer_ && pointer_->references.load(std::memory_order_acquire) == 1;
  }

 private:
  T* pointer_ = nullptr;
};

Buffer* make_buffer(std::size_t bytes);
void destroy(Buffer* buffer) noexcept;

}  // namespace detail
}  // namespace attune
