// All runs that were asked for, and what comes of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "run.hpp"

namespace attune::long_sentences {

struct Options {
  std::filesystem::path out = "long-sentences";
  std::vector<std::string> settings, variants;  // by name
  int seeds = 3;                                // 1 .. seeds
  Budget budget = {};
  int jobs = 1;     // runs at once, each in a process of its own
  int threads = 1;  // of a run
};

/// Makes the runs that DIR/results.jsonl does not have yet, one line there for each as it ends;
/// then prints tables and plots and writes DIR/report.html and charts.
void experiment(const Options& options);

}  // namespace attune::long_sentences
