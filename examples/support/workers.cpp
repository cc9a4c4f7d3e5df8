#include "support/workers.hpp"

#include <memory>

#include "support/signals.hpp"

namespace attune {
namespace {

std::unique_ptr<nn::Workers> joined;

}  // namespace

nn::Workers& workers() {
  if (!joined) joined = std::make_unique<nn::Workers>();
  return *joined;
}

std::string worker_prefix() { return joined && joined->count() > 1 ? joined->name() + ": " : ""; }

std::vector<std::string> each_makes(const std::function<std::string()>& make) {
  std::string made;
  bool was_interrupted = false;
  try {
    made = make();
  } catch (const Interrupted&) {
    was_interrupted = true;
  }
  std::vector<std::string> all = workers().gather((was_interrupted ? 'i' : 'm') + made);
  for (std::string& one : all) {
    if (one.front() == 'i') throw Interrupted();
    one.erase(0, 1);
  }
  return all;
}

void leave_workers() { joined.reset(); }

void abort_workers() {
  if (joined) joined->abort();
}

}  // namespace attune
