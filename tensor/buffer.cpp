#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <new>
#include <vector>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/platform.hpp>

namespace attune {
namespace {

constexpr std::size_t cache_line = 64;
/// Index distance between two size classes a factor of two apart.
constexpr std::size_t octave = 4;
constexpr int address_bits = std::numeric_limits<std::size_t>::digits;

struct SizeClass {
  std::size_t index, bytes;
};

/// The size class of a request: four classes per power of two, in whole cache lines.
constexpr SizeClass size_class(std::size_t bytes) {
  const std::size_t last = bytes == 0 ? 0 : (bytes - 1) / cache_line;  // number of its last line
  const std::size_t exponent = last == 0 ? 0 : std::bit_width(last) - 1;
  const std::size_t step = exponent < 2 ? 0 : exponent - 2;  // log2 of a class's lines
  const std::size_t rounded = (last >> step) + 1;
  const std::size_t quarter = rounded - (std::size_t{1} << exponent >> step);  // 0 for one line
  return {exponent * octave + quarter, (rounded << step) * cache_line};
}

constexpr auto bytes_of_class = [] {
  std::array<std::size_t, octave * address_bits> bytes{};
  for (std::size_t size = 1; size >> (address_bits - 2) == 0; size = size_class(size).bytes + 1)
    bytes[size_class(size).index] = size_class(size).bytes;
  return bytes;
}();

struct FreeBlock {
  FreeBlock* next;
};

/// Free lists of blocks by size class.
class FreeLists {
 public:
  static constexpr std::size_t classes = bytes_of_class.size();

  void put(void* memory, std::size_t index) {
    first_[index] = new (memory) FreeBlock{first_[index]};
  }
  /// Removes and returns the first block of a class, or null.
  void* take(std::size_t index) {
    FreeBlock* block = first_[index];
    if (block) __builtin_prefetch(first_[index] = block->next, /*write=*/1);
    return block;
  }

 private:
  std::array<FreeBlock*, classes> first_{};
};

/// Small blocks that this thread has freed, for its next requests. They need no lock, which would
/// cost more than a tiny operation. A block belongs to the thread that freed it last, wherever it
/// was allocated. Only that thread accesses the lists. The counters are atomic so that other
/// threads may read them. When the thread ends, its blocks move to the shared cache.
struct ThreadCache {
  static constexpr std::size_t largest_block = 16 << 10, most_bytes = 1 << 20;

  ThreadCache();
  ~ThreadCache();

  FreeLists free;
  std::size_t bytes = 0;                  // of all blocks in `free`
  std::atomic<std::ptrdiff_t> in_use{0};  // bytes taken from the lists minus bytes put back
  std::ptrdiff_t high = 0;                // maximum of in_use since the last update of the peak

  /// Puts a block into its list unless the cache is full.
  bool put(const detail::Block& block) {
    const std::size_t size = bytes_of_class[block.size_class];
    if (size > largest_block || bytes + size > most_bytes) return false;
    bytes += size;
    count(-static_cast<std::ptrdiff_t>(block.bytes));
    free.put(block.memory, block.size_class);
    return true;
  }
  /// Removes and returns a block of a class, or null. `used`: bytes of the request.
  void* take(std::size_t index, std::size_t used) {
    void* block = free.take(index);
    if (!block) return nullptr;
    bytes -= bytes_of_class[index];
    count(static_cast<std::ptrdiff_t>(used));
    return block;
  }
  void count(std::ptrdiff_t change) {
    const std::ptrdiff_t now = in_use.load(std::memory_order_relaxed) + change;
    in_use.store(now, std::memory_order_relaxed);
    high = std::max(high, now);
  }
};

/// The thread's cache. Null before the thread's first request, if its cache is disabled, and after
/// it ends: tensors with static storage are freed later. A pointer in the initial-exec model is
/// found without a function call; an object with a destructor, or the default model, needs one.
[[gnu::tls_model("initial-exec")]] thread_local constinit ThreadCache* thread_cache = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool keeps_none = false;

/// State shared by all threads. Never destroyed, as tensors with static storage may be freed late.
struct Cache {
  FreeLists free;
  std::size_t held = 0;       // bytes of all blocks that were allocated from the system
  std::ptrdiff_t in_use = 0;  // bytes of blocks taken from here, or by threads that have ended
  std::size_t peak = 0, allocations = 0;
  std::vector<ThreadCache*> threads;
  std::mutex mutex;

  /// A lock on the mutex, or none if this is the only thread of the process. That remains true
  /// while the lock exists, as no code under it starts a thread.
  std::unique_lock<std::mutex> lock() {
    return detail::single_threaded() ? std::unique_lock<std::mutex>() : std::unique_lock(mutex);
  }

  std::size_t total_in_use() const {
    std::ptrdiff_t total = in_use;
    for (const ThreadCache* t : threads) total += t->in_use.load(std::memory_order_relaxed);
    return static_cast<std::size_t>(total);
  }

  /// Called before and after `in_use` changes, so that the peak is exact with a single thread. The
  /// usage of other threads is read at this moment.
  void update_peak() {
    std::size_t most = total_in_use();
    if (ThreadCache* own = thread_cache) {
      const std::ptrdiff_t now = own->in_use.load(std::memory_order_relaxed);
      most += static_cast<std::size_t>(own->high - now);
      own->high = now;
    }
    peak = std::max(peak, most);
  }

  /// Moves all blocks of the calling thread's cache to the shared lists.
  void take_over(ThreadCache& own) {
    for (std::size_t index = 0; index < own.free.classes; ++index) {
      while (void* block = own.free.take(index)) free.put(block, index);
    }
    own.bytes = 0;
  }

  /// Frees blocks, the largest first, until at most `most` bytes are allocated from the system.
  void give_back(std::size_t most) {
    if (thread_cache) take_over(*thread_cache);
    for (std::size_t index = free.classes; index-- > 0 && held > most;) {
      for (void* block; held > most && (block = free.take(index));) {
        held -= bytes_of_class[index];
        platform::release(block);
      }
    }
  }
};

Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

ThreadCache::ThreadCache() {
  const auto lock = cache().lock();
  cache().threads.push_back(this);
}

ThreadCache::~ThreadCache() {
  Cache& c = cache();
  const auto lock = c.lock();
  c.update_peak();
  c.take_over(*this);
  c.in_use += in_use.load(std::memory_order_relaxed);
  std::erase(c.threads, this);
  thread_cache = nullptr;
  keeps_none = true;
}

/// The thread's own cache, or null if it has none.
inline ThreadCache* own_cache() {
  if (!thread_cache && !keeps_none) [[unlikely]] {
    static thread_local ThreadCache instance;
    thread_cache = &instance;
  }
  return thread_cache;
}

/// With the address sanitizer, makes it report accesses beyond the first `bytes` bytes of a block.
detail::Block limit_accesses(const detail::Block& block, std::size_t bytes) {
  const auto begin = static_cast<std::byte*>(block.memory);
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
  ASAN_POISON_MEMORY_REGION(begin + bytes, bytes_of_class[block.size_class] - bytes);
  return block;
}

/// The slow path: the thread's own cache has no block of the size class.
[[gnu::noinline]] detail::Block allocate_from_all(std::size_t bytes, SizeClass wanted,
                                                  detail::Fit fit) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw OutOfMemory("", "", bytes);
  const auto change = static_cast<std::ptrdiff_t>(wanted.bytes);
  const std::size_t last = wanted.index + (fit == detail::Fit::larger ? octave : 0);
  ThreadCache* own = own_cache();
  Cache& c = cache();
  detail::Block block{nullptr, wanted.bytes, wanted.index};
  {
    const auto lock = c.lock();
    // The smallest block that fits, from the thread's own cache or the shared lists.
    for (std::size_t& index = block.size_class; index <= last; ++index) {
      if (own && (block.memory = own->take(index, wanted.bytes)))
        return limit_accesses(block, bytes);
      if (!(block.memory = c.free.take(index))) continue;
      c.update_peak();
      c.in_use += change;
      c.update_peak();
      return limit_accesses(block, bytes);
    }
    c.update_peak();
    c.in_use += change;
    // A block is at most twice as large as its request, so freeing unused blocks is enough.
    c.held += wanted.bytes;
    c.give_back(2 * std::max(c.peak, c.total_in_use()));
    ++c.allocations;
  }
  block.size_class = wanted.index;
  block.memory = platform::allocate(wanted.bytes);
  if (!block.memory) {
    release_cached_buffers();
    block.memory = platform::allocate(wanted.bytes);
  }
  const auto lock = c.lock();
  if (!block.memory) {
    c.held -= wanted.bytes;
    c.in_use -= change;
    throw OutOfMemory("", "", bytes);
  }
  c.update_peak();
  return limit_accesses(block, bytes);
}

[[gnu::noinline]] void free_for_all(const detail::Block& block) noexcept {
  Cache& c = cache();
  const auto lock = c.lock();
  c.update_peak();
  c.in_use -= static_cast<std::ptrdiff_t>(block.bytes);
  c.free.put(block.memory, block.size_class);
}

}  // namespace

namespace detail {

void disable_thread_cache() noexcept { keeps_none = true; }

Block cache_allocate(std::size_t bytes, Fit fit) {
  const SizeClass wanted = size_class(bytes);
  ThreadCache* own = thread_cache;
  if (void* memory = own ? own->take(wanted.index, wanted.bytes) : nullptr) [[likely]]
    return limit_accesses({memory, wanted.bytes, wanted.index}, bytes);
  return allocate_from_all(bytes, wanted, fit);
}

void cache_free(const Block& block) noexcept {
  limit_accesses(block, sizeof(FreeBlock));
  ThreadCache* own = thread_cache;
  if (!own || !own->put(block)) free_for_all(block);
}

void cache_free(void* memory, std::size_t bytes) noexcept {
  const SizeClass own = size_class(bytes);
  cache_free({memory, own.bytes, own.index});
}

Buffer* make_buffer(std::size_t bytes) {
  const Block block = cache_allocate(sizeof(Buffer) + bytes, Fit::larger);
  Buffer* const buffer = new (block.memory) Buffer;
  buffer->bytes = block.bytes;
  buffer->size_class = block.size_class;
  return buffer;
}

void destroy(Buffer* buffer) noexcept {
  delete buffer->attachment.load(std::memory_order_acquire);
  cache_free({buffer, buffer->bytes, buffer->size_class});
}

}  // namespace detail

BufferStatistics buffer_statistics() {
  Cache& c = cache();
  const auto lock = c.lock();
  c.update_peak();
  const std::size_t in_use = c.total_in_use();
  return {in_use, c.peak, c.held - in_use, c.allocations};
}

void release_cached_buffers() {
  Cache& c = cache();
  const auto lock = c.lock();
  c.give_back(0);
}

}  // namespace attune
