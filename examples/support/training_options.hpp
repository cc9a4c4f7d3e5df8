// What every training has options for.
#pragma once

#include <filesystem>

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

}  // namespace attune
