// Timing, and output of the JSON lines that bench/compare.py reads.
#pragma once

#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

namespace attune::bench {

using Json = nlohmann::ordered_json;

double rounded(double x, int digits);

struct Times {
  std::vector<double> seconds;  // ascending
  double median() const { return seconds[seconds.size() / 2]; }
};

/// Times `steps` calls of f(i), after `warmup` untimed calls.
Times timed(int steps, int warmup, const std::function<void(int)>& f);

/// Adds the times and the peak memory of the process to the line, and prints it.
void print(Json line, const Times& times);

/// GFLOP/s of fused multiply-adds on registers, in all threads: the limit for matrix products.
double peak_gflops();

}  // namespace attune::bench
