// Parts of models, each timed by itself; the programs of bench/peers compute the same.
#pragma once

#include <string>
#include <vector>

namespace attune::bench {

std::vector<std::string> part_names();

struct PartsRun {
  std::vector<std::string> only = part_names();
  int steps = 20, warmup = 3;
};

/// Prints a JSON line for each part. The first call of a part, which is not timed, gives its
/// "norms": of its result and of every gradient.
void measure_parts(const PartsRun& run);

}  // namespace attune::bench
