// The commands beside `train`. Each prints to standard output and returns the exit status.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/report/alignment.hpp>
#include <attune/models/text/corpus.hpp>

#include "support/alignment_forms.hpp"
#include "support/predicting.hpp"

namespace attune::dates {

struct PredictArguments {
  std::filesystem::path model;
  std::vector<std::string> sources;  // empty: lines of standard input
  long beam = 1;
  bool json = false;
  Drawing attention;
};

/// The date, its probability, and a heat map of the attention; or a JSON object a line.
int predict(const PredictArguments& options);

struct EvaluateArguments {
  std::filesystem::path model;
  std::string file;
  text::Columns columns = text::Columns::source_first;  // of the file
  long beam = 1;
  bool json = false;
};

/// Exact match, accuracy by character, attention on gold spans, and the ten worst mistakes.
int evaluate_file(const EvaluateArguments& options);

struct AlignArguments {
  std::filesystem::path model;
  std::string file;
  text::Columns columns = text::Columns::source_first;  // of the file
  AlignOutput output;
  report::AlignedWord rule = report::AlignedWord::current;
};

/// What the model attends to, and how probable each character is, while it writes given targets.
int align(const AlignArguments& options);

struct ReportArguments {
  std::filesystem::path model;
  std::filesystem::path out;                            // empty: report.html beside the model
  std::string file;                                     // examples to show; empty: held-out dates
  text::Columns columns = text::Columns::source_first;  // of the file
  int examples = 12;
};

/// One self-contained HTML page about a model.
int report(const ReportArguments& options);

}  // namespace attune::dates
