// Timing of the modes of a model.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <attune/tensor/precision.hpp>

#include "train_step/workload.hpp"

namespace attune::bench {

struct Run {
  std::string model = "bahdanau", config = "toy";
  /// By letter, in the place of the configuration's; 0 is none.
  std::map<std::string, Index> sizes;
  std::vector<std::string> modes = {"train", "fwd", "greedy"};
  Lengths lengths = Lengths::full;
  Precision precision = Precision::f32;
  int steps = 10, warmup = 3;
};

inline const std::set<std::string> model_names = {"bahdanau", "luong"};
inline const std::set<std::string> mode_names = {"train", "fwd", "greedy"};

/// Prints a JSON line for each mode; greedy has two, for one sentence and for 64.
void measure(const Run& run);

}  // namespace attune::bench
