// The commands beside a single training. Each prints to standard output and returns the exit
// status.
#pragma once

#include "evaluation.hpp"
#include "support/predicting.hpp"
#include "train.hpp"

namespace attune::transduce {

/// Files, or directories of trainings; several models write together.
using ModelPaths = std::vector<std::filesystem::path>;

struct PredictArguments {
  ModelPaths models;
  std::vector<std::string> sources;  // empty: lines of standard input
  WriteOptions how;
  bool json = false;
  Drawing attention;
};

/// Lines of source TAB target TAB probability, so many for each source as hypotheses were asked
/// for; or a JSON object for each source.
int predict(const PredictArguments& options);

struct EvaluateArguments {
  ModelPaths models;
  std::vector<std::string> files;  // empty: the pairs that the first model was chosen by
  text::Columns columns = text::Columns::source_first;  // of the files
  Index beam = WriteOptions().beam;
  bool json = false;
};

/// Errors by length, confusions, and the mistakes that the models were surest of.
int evaluate_files(const EvaluateArguments& options);

struct ReportArguments {
  ModelPaths models;
  std::filesystem::path out;  // empty: report.html in the first directory, or beside the model
  std::string file;           // empty: the pairs that it was chosen by
  text::Columns columns = text::Columns::source_first;  // of the file
  Index beam = WriteOptions().beam;
  Index examples = 12;
};

/// One self-contained HTML page about models.
int report(const ReportArguments& options);

/// The pairs of a file, or those that the model was chosen by, and what to call them.
struct NamedRows {
  std::string name;
  std::vector<Row> rows;
};
NamedRows rows_for(Models models, const std::string& file,
                   text::Columns columns = text::Columns::source_first);

struct TrainArguments {
  TrainOptions options;
  Index seeds = 1;
  int jobs = 1;  // runs at once, where there are several seeds
};

/// Trains with seeds from that of the options on, each in a directory of its own when there are
/// several, and measures the models alone and together; ends with a report.
int train_seeds(const TrainArguments& arguments);

}  // namespace attune::transduce
