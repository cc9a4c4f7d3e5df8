#include <atomic>
#include <cfenv>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/thread_state.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {

namespace {

/// Spins before blocking: some tens of microseconds, a little more than the serial code between two
/// parallel kernels of a training step.
constexpr int most_spins = 20000;

[[gnu::tls_model("initial-exec")]] thread_local constinit bool inside_tile = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// A thread's floating-point mode (rounding, flushing of subnormals, traps), without the status
/// flags; if the C library has no fegetmode, with them.
#ifdef FE_DFL_MODE
femode_t floating_mode() {
  femode_t mode;
  fegetmode(&mode);
  return mode;
}
void set_floating_mode(const femode_t& mode) { fesetmode(&mode); }
#else
std::fenv_t floating_mode() {
  std::fenv_t mode;
  std::fegetenv(&mode);
  return mode;
}
void set_floating_mode(const std::fenv_t& mode) { std::fesetenv(&mode); }
#endif

/// Calls run(body, tile) for tiles of [0, tiles), in the caller's floating-point mode and state.
struct Job {
  Index tiles;
  void (*run)(void* body, Index tile);
  void* body;
  decltype(floating_mode()) mode = floating_mode();
  detail::ThreadState state = detail::thread_state;
};

/// Worker threads that execute the tiles of one job at a time.
///
/// A thread draws a tile by subtracting 1 from `undrawn_`. If the value before was positive, it has
/// drawn a tile, and only then reads `job_`. Why each tile runs once, with the body of its own job:
///
///   * A job ends, in `run`, when all of its tiles are done. Then all of them were drawn, so
///     `undrawn_` is 0 or less, and no thread draws a tile until the next job stores its number of
///     tiles there.
///   * So `job_` is written only while no thread can draw a tile, and read only by a thread that
///     has drawn a tile which is not done yet. A late worker, woken for an earlier job, draws a
///     tile of the current job, or none. `run` does not wait for workers that have drawn no tile.
///   * A thread that draws sees what was written to `job_`: the store to `undrawn_` is a release,
///     each draw is an acquire, and the draws in between continue the store's release sequence.
///     `run` sees what the tiles have written: each adds to `done_` with a release, and `run` reads
///     the last sum with an acquire. That also orders the reads of `job_` before its next write.
///
/// As `job_` is not atomic, ThreadSanitizer detects errors in this protocol. tests/tensor/pool.pml
/// is a model of it; Spin checks all of its interleavings.
class Pool {
 public:
  explicit Pool(int threads) {
    const std::vector<int> cpus = platform::allowed_cpus();
    const int all = static_cast<int>(cpus.size());
    // Without pinning, two new threads may share a CPU for a long time while another CPU is idle.
    // Under a quota, other containers would choose the same CPUs.
    const bool pinned = threads <= all && platform::cpu_quota("/") >= all;
    // If oversubscribed, spinning threads starve the others.
    if (threads > all) spins_ = 0;
    platform::require_stack(1 << 20);  // `ulimit -s` may be less
    for (int i = 1; i < threads; ++i) {
      try {
        workers_.emplace_back([this, cpu = pinned ? cpus[i] : -1] {
          if (cpu >= 0) platform::allow_cpus(std::span(&cpu, 1));
          serve();
        });
      } catch (const std::system_error& error) {
        stop();  // destroying a joinable thread would end the program
        fail("threads", "thread {} of {} cannot be started: {}", i + 1, threads, error.what());
      }
    }
  }

  ~Pool() { stop(); }

  void stop() {
    stopping_.store(true, std::memory_order_relaxed);
    announce();
    for (std::thread& worker : workers_) worker.join();
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(const Job& job) {
    job_ = job;
    done_.store(0, std::memory_order_relaxed);
    undrawn_.store(job.tiles, std::memory_order_release);
    announce();
    work();
    for (int i = 0; done_.load(std::memory_order_acquire) < job.tiles; ++i)
      i < spins_ ? relax() : std::this_thread::yield();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void announce() {
    announced_.fetch_add(1, std::memory_order_release);
    announced_.notify_all();
  }

  /// Draws and runs tiles until none are left.
  void work() {
    inside_tile = true;
    for (Index left; (left = undrawn_.fetch_sub(1, std::memory_order_acquire)) > 0;) {
      set_floating_mode(job_.mode);
      detail::thread_state = job_.state;
      const Index tile = job_.tiles - left;
      try {
        job_.run(job_.body, tile);
      } catch (...) {
        std::lock_guard lock(error_mutex_);
        if (!error_ || tile < error_tile_) error_ = std::current_exception(), error_tile_ = tile;
      }
      done_.fetch_add(1, std::memory_order_release);
    }
    inside_tile = false;
  }

  void serve() {
    detail::disable_thread_cache();
    for (std::uint32_t seen = 0;;) {
      std::uint32_t now;
      for (int i = 0; (now = announced_.load(std::memory_order_acquire)) == seen; ++i)
        i < spins_ ? relax() : announced_.wait(seen, std::memory_order_acquire);
      seen = now;  // read before stopping_, so that stopping is not mistaken for a job
      if (stopping_.load(std::memory_order_relaxed)) return;
      work();
    }
  }

  int spins_ = most_spins;
  std::vector<std::thread> workers_;
  std::atomic<std::uint32_t> announced_{0};  // jobs so far; while it is unchanged, workers sleep
  std::atomic<bool> stopping_{false};
  alignas(64) std::atomic<Index> undrawn_{0};  // tiles not drawn; negative after excess draws
  alignas(64) std::atomic<Index> done_{0};
  alignas(64) Job job_{};
  std::mutex error_mutex_;
  std::exception_ptr error_;  // of the first tile that threw, whatever the number of threads
  Index error_tile_ = 0;
};

int initial_threads() {
  const char* text = std::getenv("ATTUNE_THREADS");
  if (!text || !*text)
    return std::clamp(static_cast<int>(platform::allowed_cpus().size()), 1,
                      platform::cpu_quota("/"));
  int n = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, n);
  if (error != std::errc() || rest != end || n < 1 || n > 1024)
    fail("ATTUNE_THREADS", in_quotes(text) + " is not a number of threads from 1 to 1024");
  return n;
}

std::mutex pool_mutex;  // serialises parallel_for: a second caller runs its tiles itself

/// Stops the pool at exit, unless a job is running: then a tile may have called exit.
struct PoolSlot : std::unique_ptr<Pool> {
  ~PoolSlot() {
    std::unique_lock lock(pool_mutex, std::defer_lock);
    if (inside_tile || !lock.try_lock()) static_cast<void>(release());
    reset();
  }
};

/// The pool; null until its first use or set_threads.
std::unique_ptr<Pool>& pool_slot() {
  static PoolSlot instance;
  return instance;
}

/// The pool, created if necessary. The caller must hold pool_mutex.
Pool& pool() {
  if (!pool_slot()) pool_slot() = std::make_unique<Pool>(initial_threads());
  return *pool_slot();
}

}  // namespace

int threads() {
  if (inside_tile) return pool_slot()->threads();  // the owner of the job holds the lock
  std::lock_guard lock(pool_mutex);
  return pool().threads();
}

void set_threads(Integer n) {
  if (n < 1 || n > 1024) fail("set_threads", "{} is not in 1 to 1024", n);
  if (inside_tile) fail("set_threads", "a parallel_for is running");
  std::lock_guard lock(pool_mutex);
  if (pool_slot() && pool_slot()->threads() == n) return;
  pool_slot().reset();
  pool_slot() = std::make_unique<Pool>(n);
}

namespace detail {

void run_tiles(Index tiles, void (*run)(void*, Index), void* body) {
  if (tiles <= 0) return;
  std::unique_lock lock(pool_mutex, std::defer_lock);
  bool alone = inside_tile || !lock.try_lock();
  if (!alone && pool().threads() == 1) {
    lock.unlock();  // a tile may call parallel_for itself
    alone = true;
  }
  if (alone) {
    for (Index tile = 0; tile < tiles; ++tile) run(body, tile);
    return;
  }
  pool().run({tiles, run, body});
}

}  // namespace detail
}  // namespace attune
