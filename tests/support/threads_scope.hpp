// How many threads a part of a test has.
#pragma once

#include <attune/tensor/threads.hpp>

namespace attune::test {

/// While it lives, operations have this many threads.
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
