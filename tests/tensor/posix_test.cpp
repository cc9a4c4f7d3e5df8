// Pipes, full disks, preemption and CPU quotas, which need functions of POSIX or Linux.
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <attune/tensor/file.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/safetensors.hpp>
#include <attune/tensor/threads.hpp>

#include "support/naive.hpp"
#include "support/scratch_directory.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

/// Limits the size of files of this process until the end of the scope, to simulate a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limited = before_;
    limited.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

/// Pins all threads of this process to one CPU, including those that are created meanwhile.
class OneCpu {
 public:
  OneCpu() { platform::allow_cpus(std::span(before_).first(1)); }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;
  ~OneCpu() { platform::allow_cpus(before_); }

 private:
  const std::vector<int> before_ = platform::allowed_cpus();
};

/// Preempts the running threads again and again.
class Interruptions {
 public:
  explicit Interruptions(std::chrono::microseconds interval) {
    std::signal(SIGALRM, [](int) { sched_yield(); });
    const timeval every{.tv_sec = 0, .tv_usec = static_cast<suseconds_t>(interval.count())};
    const itimerval timer{every, every};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;
  ~Interruptions() {
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    std::signal(SIGALRM, SIG_IGN);
  }
};

}  // namespace

TEST_CASE("write_file: writes to a pipe, does not replace it by a file") {
  const ScratchDirectory scratch;
  const std::string pipe = (scratch / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = read_file(pipe); });
  write_file(pipe, "text");
  reader.join();
  CHECK(read == "text");
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("write_file: a failed write keeps the old file and leaves no temporary file") {
  const ScratchDirectory scratch;
  write_file(scratch / "model", "the old contents");
  std::string error;
  {
    const FileSizeLimit limit(1000);
    error = error_of([&] { write_file(scratch / "model", std::string(5000, 'x')); });
  }
  CHECK(error == (scratch / "model").string() + ": cannot be written: File too large");
  CHECK(read_file(scratch / "model") == "the old contents");
  CHECK(scratch.count() == 1);
}

TEST_CASE("Safetensors: anything but a regular file is an error with its path, without blocking") {
  const ScratchDirectory scratch;
  CHECK_ERROR((scratch / "none").string() + ": cannot be read: No such file or directory",
              load_safetensors(scratch / "none"));
  const std::string pipe = (scratch / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), scratch.path().string()}) {
    CHECK_ERROR(path + ": not a regular file", load_safetensors(path));
  }
}

TEST_CASE("Threads: every tile runs exactly once, with threads interrupted on a busy CPU") {
  const test::ThreadsScope none(1);  // recreates the pool for other tests, without pinning
  const OneCpu one_cpu;
  for (int n : {2, 3, 8}) {
    const int jobs = 400'000 / (n * n);
    CAPTURE(n);
    const test::ThreadsScope scope(n);
    const Interruptions interruptions(std::chrono::microseconds(50));
    // A tile of a job of another size, run by mistake, would change the counts of this job.
    std::vector<std::atomic<int>> runs(300);
    int wrong = 0;
    for (int job = 0; job < jobs; ++job) {
      const std::size_t tiles = job % 2 ? 300 : 2;
      for (auto& count : runs) count.store(0, std::memory_order_relaxed);
      parallel_for(static_cast<Index>(tiles), [&](Index tile) {
        runs[static_cast<std::size_t>(tile)].fetch_add(1, std::memory_order_relaxed);
      });
      for (std::size_t tile = 0; tile < runs.size(); ++tile) wrong += runs[tile] != (tile < tiles);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("cpu_quota: the minimum over all control groups of the process, rounded up") {
  const ScratchDirectory root;
  const auto quota = [&] { return platform::cpu_quota(root.path()); };
  constexpr int none = std::numeric_limits<int>::max();
  const auto write = [&](const std::string& file, const std::string& text) {
    make_directories((root / file).parent_path());
    write_file(root / file, text);
  };
  CHECK(quota() == none);
  // Version 2: a service in a container. At first only the container has a limit.
  write("proc/self/cgroup", "0::/box/service\n");
  CHECK(quota() == none);
  write("sys/fs/cgroup/box/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/box/service/cpu.max", "max 100000\n");
  CHECK(quota() == 3);
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");  // how a container sees its own limit
  CHECK(quota() == 1);
  // Version 1, with a path that does not exist in the container.
  write("proc/self/cgroup", "9:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/\n");
  CHECK(quota() == none);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  CHECK(quota() == none);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  CHECK(quota() == 2);
}

}  // namespace attune
