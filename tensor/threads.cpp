#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

/// How often a waiting thread looks before it sleeps: some tens of microseconds, a little more than
/// the serial stretch between two parallel kernels of a training step.
constexpr int spins = 20000;

thread_local bool inside_tile = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// One parallel_for: what to run, and how far it has come.
struct Job {
  void (*run)(void*, Index);
  void* body;
  Index tiles;
  std::atomic<Index> next{0};
  std::mutex mutex;
  std::exception_ptr error;

  void work() {
    inside_tile = true;
    for (Index tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < tiles;) {
      try {
        run(body, tile);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
    inside_tile = false;
  }
};

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

/// Workers that wait for an epoch to begin, spinning briefly and then sleeping.
class Pool {
 public:
  explicit Pool(int threads) {
    const std::vector<int> cpus = allowed_cpus();
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this] { serve(); });
      // Two fresh threads may otherwise share a CPU for a long time while another one is idle.
      if (threads <= static_cast<int>(cpus.size()))
        pin(workers_.back(), cpus[static_cast<std::size_t>(i)]);
    }
  }

  ~Pool() {
    job_ = nullptr;
    begin_epoch();
    for (std::thread& worker : workers_) worker.join();
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  void run(Job& job) {
    job_ = &job;
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    begin_epoch();
    job.work();
    wait_while_busy();
  }

 private:
  static void pin(std::thread& thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a hint: it may be refused
  }

  void begin_epoch() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  void wait_while_busy() {
    for (int i = 0; busy_.load(std::memory_order_acquire) > 0; ++i) {
      if (i < spins) {
        relax();
      } else if (const int now = busy_.load(std::memory_order_acquire); now > 0) {
        busy_.wait(now, std::memory_order_acquire);
      }
    }
  }

  void serve() {
    for (unsigned seen = 0;;) {
      for (int i = 0; epoch_.load(std::memory_order_acquire) == seen; ++i) {
        if (i < spins) {
          relax();
        } else {
          epoch_.wait(seen, std::memory_order_acquire);
        }
      }
      ++seen;
      Job* job = job_;
      if (!job) return;
      job->work();
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
  }

  std::vector<std::thread> workers_;
  std::atomic<unsigned> epoch_{0};
  std::atomic<int> busy_{0};
  Job* job_ = nullptr;
};

int initial_threads() {
  const char* text = std::getenv("ATTUNE_THREADS");
  if (!text || !*text) return std::max(1, static_cast<int>(allowed_cpus().size()));
  int n = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, n);
  if (error != std::errc() || rest != end || n < 1 || n > 1024) {
    fail("ATTUNE_THREADS", fmt::format("'{}' is not a number of threads from 1 to 1024", text));
  }
  return n;
}

std::mutex pool_mutex;  // one parallel_for at a time: a second caller runs its tiles alone

std::unique_ptr<Pool>& pool() {
  static std::unique_ptr<Pool> instance = std::make_unique<Pool>(initial_threads());
  return instance;
}

}  // namespace

int threads() { return pool()->threads(); }

void set_threads(int n) {
  if (n < 1 || n > 1024) fail("set_threads", fmt::format("{} is not in 1 to 1024", n));
  std::lock_guard lock(pool_mutex);
  if (pool()->threads() == n) return;
  pool().reset();
  pool() = std::make_unique<Pool>(n);
}

namespace detail {

void run_tiles(Index tiles, void (*run)(void*, Index), void* body) {
  if (tiles <= 0) return;
  std::unique_lock lock(pool_mutex, std::defer_lock);
  if (inside_tile || !lock.try_lock() || pool()->threads() == 1) {
    for (Index tile = 0; tile < tiles; ++tile) run(body, tile);
    return;
  }
  Job job{.run = run, .body = body, .tiles = tiles, .next = 0, .mutex = {}, .error = {}};
  pool()->run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace detail
}  // namespace attune
