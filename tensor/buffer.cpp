#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>

#include <sys/mman.h>
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#endif

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/check.hpp>

namespace attune {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t smallest_block = 64;
/// The class of twice the size has an index that is higher by this.
constexpr std::size_t octave = 5;

struct SizeClass {
  std::size_t index, bytes;
};

/// The logarithm of the steps in which sizes are rounded up, between 2^exponent and twice as much.
int step_of(int exponent) { return std::max(exponent - 2, std::countr_zero(smallest_block) - 2); }

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Four classes to a power of two, in whole cache lines.
SizeClass size_class(std::size_t bytes) {
  bytes = std::max(bytes, smallest_block);
  const int exponent = std::bit_width(bytes - 1) - 1;  // 2^exponent < bytes <= 2^(exponent + 1)
  const int step = step_of(exponent);
  const std::size_t rounded = ((bytes - 1) >> step) + 1;  // in steps
  const std::size_t quarter = rounded - (std::size_t{1} << exponent >> step);
  return {static_cast<std::size_t>(exponent) * octave + quarter, whole_lines(rounded << step)};
}

std::size_t bytes_of_class(std::size_t index) {
  const auto exponent = static_cast<int>(index / octave);
  return whole_lines((std::size_t{1} << exponent) + (index % octave << step_of(exponent)));
}

struct FreeBlock {
  FreeBlock* next;
};

/// Locks the mutex, unless this is the only thread of the process. That stays true while the lock
/// exists, as no code that runs under it starts a thread.
class CacheLock {
 public:
  explicit CacheLock(std::mutex& mutex) : lock_(mutex, std::defer_lock) {
    if (!detail::single_threaded()) lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Never destroyed: tensors with static storage may be freed after it would have been.
struct Cache {
  std::mutex mutex;
  std::array<FreeBlock*, octave * 64> free{};
  std::size_t held = 0;  // bytes of all blocks that the system gave
  std::size_t in_use = 0, peak = 0, allocations = 0;

  /// The first block of a class, or null.
  FreeBlock* take(std::size_t index) {
    FreeBlock* block = free[index];
    if (block) free[index] = block->next;
    return block;
  }

  /// Gives free blocks back to the system, the largest first, until at most so many bytes are held.
  void give_back(std::size_t most) {
    for (std::size_t index = free.size(); index-- > 0 && held > most;) {
      for (FreeBlock* block; held > most && (block = take(index));) {
        held -= bytes_of_class(index);
        std::free(block);
      }
    }
  }
};

Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

/// Null when there is none.
void* allocate_from_system(std::size_t bytes) {
  const bool huge = bytes >= 2 * huge_page;
  const std::size_t alignment = huge ? huge_page : 64;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block && huge) madvise(block, bytes, MADV_HUGEPAGE);  // a hint: it may be refused
  return block;
}

/// Lets the address sanitizer, where there is one, report accesses beyond the first bytes.
void limit_accesses(const detail::Block& block, std::size_t bytes) {
  [[maybe_unused]] const auto begin = static_cast<std::byte*>(block.memory);
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  ASAN_POISON_MEMORY_REGION(begin + bytes, bytes_of_class(block.size_class) - bytes);
}

}  // namespace

namespace detail {

Block cache_allocate(std::size_t bytes, Fit fit) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw OutOfMemory("", "", bytes);
  const SizeClass wanted = size_class(bytes);
  Cache& c = cache();
  {
    const CacheLock lock(c.mutex);
    c.in_use += wanted.bytes;
    const std::size_t last = wanted.index + (fit == Fit::larger ? octave : 0);
    for (std::size_t index = wanted.index; index <= last; ++index) {
      FreeBlock* block = c.take(index);
      if (!block) continue;
      c.peak = std::max(c.peak, c.in_use);
      const Block reused{block, wanted.bytes, index};
      limit_accesses(reused, bytes);
      return reused;
    }
    // No block is more than twice what it is used for, so giving back what is free is enough.
    c.held += wanted.bytes;
    c.give_back(2 * std::max(c.peak, c.in_use));
    ++c.allocations;
  }
  void* memory = allocate_from_system(wanted.bytes);
  if (!memory) {
    release_cached_buffers();
    memory = allocate_from_system(wanted.bytes);
  }
  const CacheLock lock(c.mutex);
  if (!memory) {
    c.held -= wanted.bytes;
    c.in_use -= wanted.bytes;
    throw OutOfMemory("", "", bytes);
  }
  c.peak = std::max(c.peak, c.in_use);
  const Block made{memory, wanted.bytes, wanted.index};
  limit_accesses(made, bytes);
  return made;
}

void cache_free(const Block& block) noexcept {
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  c.in_use -= block.bytes;
  c.free[block.size_class] = new (block.memory) FreeBlock{c.free[block.size_class]};
  limit_accesses(block, sizeof(FreeBlock));
}

void cache_free(void* memory, std::size_t bytes) noexcept {
  const SizeClass own = size_class(bytes);
  cache_free({memory, own.bytes, own.index});
}

BufferPointer::BufferPointer(std::size_t bytes) {
  const std::size_t total = sizeof(Buffer) + bytes;
  const Block block = cache_allocate(total < bytes ? bytes : total, Fit::larger);
  buffer_ = new (block.memory) Buffer;
  buffer_->bytes = block.bytes;
  buffer_->size_class = block.size_class;
}

void BufferPointer::free() noexcept {
  delete buffer_->attachment.load(std::memory_order_acquire);
  cache_free({buffer_, buffer_->bytes, buffer_->size_class});
}

}  // namespace detail

BufferStatistics buffer_statistics() {
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  return {c.in_use, c.peak, c.held - c.in_use, c.allocations};
}

void release_cached_buffers() {
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  c.give_back(0);
}

}  // namespace attune
