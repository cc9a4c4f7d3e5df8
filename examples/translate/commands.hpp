// What the program does with a trained model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/sampling.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/corpus.hpp>

#include "support/alignment_forms.hpp"

namespace attune::translate {

struct TranslateArguments {
  /// With several, they write together; their vocabularies must be the same.
  std::vector<std::filesystem::path> models = {"translate-model/best.safetensors"};
  std::string file;  // empty: standard input
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  Index batch = 64;
  bool scores = false;           // before each line
  bool moses = false;            // lines as in an n-best list of Moses
  bool replace_unknown = false;  // by the source's token that was looked at
  bool sample = false;           // instead of searching
  models::SamplingOptions sampling;
};

/// A line of the input becomes a line of the output, in order; an empty one stays empty. With
/// search.best > 1 there are so many lines for each, and an empty line between. Returns the exit
/// status.
int translate(const TranslateArguments& options);

struct EvaluateArguments {
  /// With several, they write together; their vocabularies must be the same.
  std::vector<std::filesystem::path> models = {"translate-model/best.safetensors"};
  std::string source, target;
  text::Columns columns = text::Columns::source_first;  // of a TSV
  std::vector<std::string> references;                  // beside the target
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  metrics::BleuOptions bleu;
  std::string out;        // empty: translations are not written
  std::string sentences;  // file for what each sentence scores; empty: none
  bool json = false;
};

/// BLEU and chrF with all references, and the perplexity of the target.
int evaluate_files(const EvaluateArguments& options);

struct CompareArguments {
  std::vector<std::filesystem::path> models;
  std::string source, target;
  text::Columns columns = text::Columns::source_first;  // of a TSV
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  metrics::BleuOptions bleu;
  std::vector<std::int64_t> lengths = {8, 12, 16, 20};  // of sources, at which a column ends
  bool json = false;
};

/// Prints a table of models: perplexity, BLEU, what it differs by from the first one's, with the
/// p-value of paired bootstrap resampling, and BLEU by length of the source.
int compare(const CompareArguments& options);

struct ScoreArguments {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string source, target;                           // empty target: the source is a TSV
  text::Columns columns = text::Columns::source_first;  // of a TSV
};

/// Prints the natural logarithm of the probability of each translation, </s> included; an empty
/// line where the source is empty.
int score(const ScoreArguments& options);

/// What is aligned: the words between blanks, or the tokens of the model.
enum class AlignUnits { words, tokens };

struct AlignArguments {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string source;
  std::string target;  // empty: what the model writes itself
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  AlignUnits units = AlignUnits::words;
  AlignOutput output;
};

/// Where the model looks for each token of given translations, or of its own.
int align(const AlignArguments& options);

struct ReportArguments {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string source, target;                           // empty: what it was validated on
  text::Columns columns = text::Columns::source_first;  // of a TSV
  models::SearchOptions search = {.beam = 5, .length_penalty = 1, .best = 5};
  metrics::BleuOptions bleu;
  Index examples = 12;
  std::string out;  // empty: report.html beside the model
};

/// An HTML page about the model: learning curves, BLEU by length, attention, the best few
/// translations.
int report(const ReportArguments& options);

struct CurvesArguments {
  std::vector<std::filesystem::path> logs;  // log.jsonl of runs, or other JSON lines
  std::string field = "bleu";
  std::string against = "minutes";  // or a field
  std::string title;
  std::string out = "curves.svg";
};

/// Draws a field of several logs into one chart.
int curves(const CurvesArguments& options);

struct AverageArguments {
  std::vector<std::filesystem::path> models;
  std::filesystem::path out = "average.safetensors";
};

/// Writes a model whose weights are the means of those of several checkpoints of one run.
int average(const AverageArguments& options);

struct ExportArguments {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string out = "exported";  // what names of files begin with
};

/// Writes how the model cuts text and numbers it: OUT.source.model (with subwords) and
/// OUT.source.vocabulary, and those of the target, which `train` and other programs read.
int export_text(const ExportArguments& options);

/// Prints what is in a checkpoint: options, vocabularies, and the shapes of its parameters.
int inspect(const std::filesystem::path& model);

}  // namespace attune::translate
