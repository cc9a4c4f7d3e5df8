// A program linked with failing_allocations.cpp can make its own allocations fail.
#pragma once

#include <atomic>
#include <climits>

namespace attune::test {

/// Whether an allocation may succeed: so many do, then so many do not.
struct Budget {
  static constexpr long unlimited = LONG_MAX;
  std::atomic<long> granted{unlimited}, refused{0};

  bool take() { return granted == unlimited || --granted >= 0 || --refused < 0; }
};

extern Budget blocks;   // of tensors and graphs, which the cache gets from the system
extern Budget objects;  // all others

/// While one lives, so many allocations succeed, and the next ones fail.
class Limit {
 public:
  Limit(Budget& budget, long granted, long refused = Budget::unlimited) : budget_(budget) {
    budget_.refused = refused;
    budget_.granted = granted;
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { budget_.granted = Budget::unlimited; }

 private:
  Budget& budget_;
};

}  // namespace attune::test
