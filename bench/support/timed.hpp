// Timing, and the JSON lines that bench/compare.py reads.
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

/// Seconds of `steps` calls of f(i), after `warmup` calls that are not timed.
Times timed(int steps, int warmup, const std::function<void(int)>& f);

/// Prints the line with its times and the memory that the process used.
void print(Json line, const Times& times);

/// GFLOP/s of fused multiply-adds on registers alone, in all threads: the limit of any product.
double peak_gflops();

}  // namespace attune::bench
