// Memory: a cache of freed blocks by size class, and the reference-counted buffers of tensors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <attune/tensor/shape.hpp>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace attune {

/// What the buffers of all tensors take, in bytes.
struct BufferStatistics {
  std::size_t in_use;       ///< of tensors now
  std::size_t peak;         ///< the most that were ever in use at once
  std::size_t cached;       ///< idle, and kept for reuse: in_use + cached <= 2 peak, plus at most
                            ///< 1 MiB of small blocks for each other thread
  std::size_t allocations;  ///< how often the system was asked: no more in steady state
};
BufferStatistics buffer_statistics();

/// Gives every cached block back to the system, except small ones of other threads.
void release_cached_buffers();

namespace detail {

// Counters that threads share, in plain arithmetic while the process has but one thread: a locked
// instruction costs as much as ten others, and the smallest models do little else.

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

/// 64-byte aligned memory.
struct Block {
  void* memory;
  std::size_t bytes;       // those asked for, rounded up to their size class
  std::size_t size_class;  // that it was made for
};

/// Which freed blocks serve a request: those of its size class (four to a power of two, in whole
/// cache lines), or also larger ones, up to twice the size. These keep what lies idle small when
/// every step has other shapes.
enum class Fit { own_class, larger };

/// A block from the cache, else from the system. When the system has no memory, all idle blocks are
/// given back to it before a second attempt. Throws OutOfMemory. Any thread may allocate and free.
Block cache_allocate(std::size_t bytes, Fit fit);
void cache_free(const Block& block) noexcept;
/// The same for a block that was allocated with Fit::own_class.
void cache_free(void* memory, std::size_t bytes) noexcept;

/// Disables the block cache of the calling thread: a worker of the pool may sleep for long on blocks
/// that others could use.
void keep_no_thread_cache() noexcept;

/// Tells by a comparison whether a buffer was written after an observation: a write stamps the
/// buffer with the clock, and an observer (a recorded operation, a packed form, a norm) ticks it
/// with observe(). Writes are many and observations few, so writes only read. Relaxed is enough: a
/// write that happens before the observation reads at most what observe() returns, a write after it
/// reads more; where neither happens before the other, the elements themselves are raced for.
inline std::atomic<std::uint64_t> modification_clock{0};
inline std::uint64_t observe() { return fetch_add(modification_clock, std::uint64_t{1}); }
inline std::uint64_t write_stamp() { return modification_clock.load(std::memory_order_relaxed); }

/// What was computed from a buffer's contents and is kept with it.
struct Attachment {
  virtual ~Attachment() = default;
};

/// The header of a block; the elements follow it, 64-byte aligned.
struct alignas(64) Buffer {
  std::atomic<std::uint32_t> references{1};
  std::uint64_t created_at = write_stamp();
  std::atomic<std::uint64_t> modified_at{created_at};  // tiles may write rows of one buffer
  std::size_t bytes = 0, size_class = 0;               // of the block
  std::atomic<Attachment*> attachment{nullptr};        // owned; set once

  std::byte* elements() { return reinterpret_cast<std::byte*>(this + 1); }
};

/// A counted reference to a Buffer or another T with `references` and a function destroy(T*).
template <class T>
class Counted {
 public:
  Counted() = default;
  explicit Counted(T* adopted) : pointer_(adopted) {}
  Counted(const Counted& other) : pointer_(other.pointer_) {
    if (pointer_) fetch_add(pointer_->references, 1u);
  }
  Counted(Counted&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Counted& operator=(Counted other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Counted() {
    if (pointer_ && drop_reference(pointer_->references)) destroy(pointer_);
  }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  /// Whether this is the only reference. No other can appear, as references are copied from
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
