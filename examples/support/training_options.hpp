// What every training has options for.
#pragma once

#include <filesystem>

#include <attune/nn/schedule.hpp>
#include <attune/tensor/dtype.hpp>
#include <attune/tensor/precision.hpp>

namespace attune {

struct TrainingOptions {
  std::filesystem::path out;
  bool resume = false;
  double rate = 1e-3;
  Index batch = 64;
  Index validate_every = 500;
  double clip = 1;
  Index max_skipped = 10;
  Precision precision = Precision::f32;
};

/// `rate` for half of the steps, then in a straight line down to 2 % of it.
inline nn::LinearDecay late_decay(double rate, Index steps) {
  return {.rate = rate, .last = rate / 50, .steps = steps, .after = steps / 2};
}

}  // namespace attune
