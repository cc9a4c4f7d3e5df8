// The commands beside `train`. Each prints to standard output and returns the exit status.
#pragma once

#include "train.hpp"

namespace attune::forecast {

struct PredictArguments {
  std::filesystem::path model;
  std::filesystem::path csv;
};

/// What comes after the last row of a file: a CSV of the same columns.
int predict(const PredictArguments& options);

struct EvaluateArguments {
  std::filesystem::path model;
  std::filesystem::path csv;  // empty: that of the training
  bool json = false;
};

/// Errors on the test part, over every window, by how far ahead.
int evaluate(const EvaluateArguments& options);

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

struct CompareArguments {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
  std::vector<std::string> variants = variant_names();
  std::vector<Index> horizons = {24, 48, 96, 168, 192, 336, 720};
  Index seeds = 3;
  int jobs = 1;
};

/// Trains every variant for every horizon with every seed, as far as that is not done yet, and
/// prints a table of their errors on the test part.
int compare(const CompareArguments& options);

struct ReportArguments {
  std::filesystem::path model;
  std::filesystem::path out;  // empty: report.html beside the model
  std::filesystem::path csv;  // empty: that of the training
  int examples = 4;
};

/// One self-contained HTML page: forecasts over what was measured, what was attended to, errors by
/// how far ahead, learning curves.
int report(const ReportArguments& options);

}  // namespace attune::forecast
