// The commands beside `train`. Each prints to standard output and returns the exit status.
#pragma once

#include "evaluation.hpp"
#include "train.hpp"

namespace attune::speech {

struct RecogniseArguments {
  std::filesystem::path model;
  std::vector<std::string> files;  // none: samples from standard input
  HearOptions hear;
  Index rate = 0;  // of standard input; 0: the model's
  double pause =
      0.5;  // seconds of quiet that end an utterance of standard input; 0: only its end does
  bool json = false;
};

/// Recordings, or raw samples of 16 bits from standard input, as text.
int recognise(const RecogniseArguments& options);

struct EvaluateArguments {
  std::filesystem::path model;
  std::vector<std::string> lists;
  std::string digits;         // or directory of digits, of which
  Index first = 5, last = 9;  // these recordings are measured by themselves and as strings
  Index longest = 12;         // digits of the longest
  Index strings = 100;        // of each length
  HearOptions hear;
  bool json = false;
};

/// Token errors by length.
int evaluate(const EvaluateArguments& options);

enum class AlignFormat { tsv, json, textgrid };

struct AlignArguments {
  std::filesystem::path model;
  std::string list;
  AlignFormat format = AlignFormat::tsv;
  std::filesystem::path out;  // textgrid: a directory
};

/// When each token of a list's transcripts was heard.
int align(const AlignArguments& options);

struct ReportArguments {
  std::filesystem::path model;
  std::filesystem::path out;  // empty: report.html beside the model
  std::string list;           // empty: the data of the training
  Index examples = 6;
};

/// One self-contained HTML page: what was attended to above spectrograms, errors by length, curves.
int report(const ReportArguments& options);

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

struct CompareArguments {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
  std::vector<std::string> variants = variant_names();
  Index seeds = 3;
  int jobs = 1;
};

/// Trains every variant with every seed on strings of digits, as far as that is not done yet, and
/// prints a table of their errors on single digits, on strings of lengths that were trained on, and
/// on longer ones, by attention and CTC and by attention alone.
int compare(const CompareArguments& options);

}  // namespace attune::speech
