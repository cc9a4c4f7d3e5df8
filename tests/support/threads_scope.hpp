// Sets the number of threads for a part of a test.
#pragma once

#include <attune/tensor/threads.hpp>

namespace attune::test {

/// Sets the number of threads, and restores the old one on scope exit.
class ThreadsScope {
 public:
  explicit ThreadsScope(int n) : before_(threads()) { set_threads(n); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;
  ~ThreadsScope() { set_threads(before_); }

 private:
  int before_;
};

}  // namespace attune::test
