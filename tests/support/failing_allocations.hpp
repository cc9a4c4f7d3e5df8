// Fault injection for allocations, in programs linked with failing_allocations.cpp.
#pragma once

#include <atomic>
#include <climits>

namespace attune::test {

/// How many allocations succeed, and how many fail after them.
struct Budget {
  static constexpr long unlimited = LONG_MAX;
  std::atomic<long> granted{unlimited}, refused{0};

  bool take() { return granted == unlimited || --granted >= 0 || --refused < 0; }
};

extern Budget blocks;   // tensors and graph nodes, allocated by the cache from the system
extern Budget objects;  // all other allocations

/// Sets the budget until the end of the scope.
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
