#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>

#include <fmt/format.h>
#include <sys/mman.h>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/check.hpp>

namespace attune {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t smallest_block = 64;
/// From here on a request may take a block of up to the next power of two and a half: size classes
/// up to `octave` later.
constexpr std::size_t large_block = std::size_t{1} << 20, octave = 5;

struct SizeClass {
  std::size_t index, bytes;
};

/// Four classes to a power of two, in whole cache lines.
SizeClass size_class(std::size_t bytes) {
  bytes = std::max(bytes, smallest_block);
  const int exponent = std::bit_width(bytes - 1) - 1;  // 2^exponent < bytes <= 2^(exponent + 1)
  const int step = std::max(exponent - 2, std::countr_zero(smallest_block) - 2);  // its logarithm
  const std::size_t rounded = ((bytes - 1) >> step) + 1;                          // in steps
  const std::size_t quarter = rounded - (std::size_t{1} << exponent >> step);
  return {static_cast<std::size_t>(exponent) * 5 + quarter, ((rounded << step) + 63) / 64 * 64};
}

struct FreeBlock {
  FreeBlock* next;
  std::size_t bytes;
};

/// Locked while another thread exists. None can start while one of these lives: no thread is made
/// under it.
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
  std::array<FreeBlock*, 5 * 64> free{};
  std::size_t in_use = 0, peak = 0, cached = 0, allocations = 0;
};

Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

void* allocate_from_system(std::size_t bytes) {
  const bool huge = bytes >= 2 * huge_page;
  const std::size_t alignment = huge ? huge_page : 64;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!block) fail("tensor", fmt::format("there is no memory for {} bytes", bytes));
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);  // a hint: it may be refused
  return block;
}

}  // namespace

namespace detail {

Block cache_allocate(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) fail("tensor", "the size overflows");
  const SizeClass wanted = size_class(bytes);
  Cache& c = cache();
  {
    const CacheLock lock(c.mutex);
    const std::size_t last = wanted.index + (wanted.bytes >= large_block ? octave : 0);
    for (std::size_t index = wanted.index; index <= last; ++index) {
      FreeBlock* block = c.free[index];
      if (!block) continue;
      c.free[index] = block->next;
      const SizeClass own = index == wanted.index ? wanted : size_class(block->bytes);
      c.cached -= own.bytes;
      c.in_use += own.bytes;
      c.peak = std::max(c.peak, c.in_use);
      return {block, index == wanted.index ? bytes : block->bytes};
    }
    c.in_use += wanted.bytes;
    ++c.allocations;
  }
  try {
    void* block = allocate_from_system(wanted.bytes);
    const CacheLock lock(c.mutex);
    c.peak = std::max(c.peak, c.in_use);
    return {block, bytes};
  } catch (...) {
    const CacheLock lock(c.mutex);
    c.in_use -= wanted.bytes;
    throw;
  }
}

void cache_free(const Block& block) noexcept {
  const SizeClass own = size_class(block.bytes);
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  c.in_use -= own.bytes;
  c.cached += own.bytes;
  c.free[own.index] = new (block.memory) FreeBlock{c.free[own.index], block.bytes};
}

BufferPointer::BufferPointer(std::size_t bytes) {
  const std::size_t total = sizeof(Buffer) + bytes;
  if (total < bytes) fail("tensor", "the size overflows");
  const Block block = cache_allocate(total);
  buffer_ = new (block.memory) Buffer;
  buffer_->block_bytes = block.bytes;
}

void BufferPointer::free() noexcept {
  delete buffer_->attachment.load(std::memory_order_acquire);
  cache_free({buffer_, buffer_->block_bytes});
}

}  // namespace detail

BufferStatistics buffer_statistics() {
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  return {c.in_use, c.peak, c.cached, c.allocations};
}

void release_cached_buffers() {
  Cache& c = cache();
  const CacheLock lock(c.mutex);
  for (FreeBlock*& head : c.free) {
    while (head) std::free(std::exchange(head, head->next));
  }
  c.cached = 0;
}

}  // namespace attune
