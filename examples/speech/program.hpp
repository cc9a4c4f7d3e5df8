// The commands of `speech`. Each prints to standard output and returns the exit status.
#pragma once

#include "model.hpp"
#include "support/comparing.hpp"
#include "support/training_options.hpp"

namespace attune::speech {

enum class Tokens { words, characters };

/// All that the command line can say about a training, with its defaults.
struct TrainOptions : TrainingOptions {
  TrainOptions()
      : TrainingOptions{
            .out = "speech-model", .batch = 32, .validate_every = 200, .average = 0.998} {}
  std::string digits;             // directory of the Free Spoken Digit Dataset,
  Index longest = 7;              // joined to strings of so many digits at most;
  std::string list, valid_list;   // or lists of recordings
  Tokens tokens = Tokens::words;  // of their transcripts
  Index steps = 2000;
  double speed = 0.15;                   // recordings are made faster or slower by up to this share
  double silence = 0.1;                  // seconds of it before and after a recording, at most
  double noise = 20;                     // decibels below the recording at the loudest
  Index time_masks = 2, band_masks = 2;  // stretches of time, and of the mel scale, that are hidden
  std::uint64_t seed = 1;
  LogMelOptions features;
  RecogniserOptions network;
};

/// All of it as text, but for `features` and `network`, which have their own fields.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// Those that the run of a checkpoint was started with. Throws an Error that begins with its path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Trains a model and writes best.safetensors, last.safetensors and log.jsonl. Returns the exit
/// status: 0, or 128 + the number of the signal that interrupted it.
int train(const TrainOptions& options);

inline constexpr const char* default_model = "speech-model/best.safetensors";

struct RecogniseArguments {
  std::filesystem::path model = default_model;
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
  std::filesystem::path model = default_model;
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
  std::filesystem::path model = default_model;
  std::filesystem::path list;
  AlignFormat format = AlignFormat::tsv;
  std::filesystem::path out;  // textgrid: a directory
};

/// When each token of a list's transcripts was heard.
int align(const AlignArguments& options);

struct ReportArguments {
  std::filesystem::path model = default_model;
  std::filesystem::path out = {};  // empty: report.html beside the model
  std::string list = {};           // empty: the data of the training
  Index examples = 6;
};

/// One self-contained HTML page: what was attended to above spectrograms, errors by length, curves.
int report(const ReportArguments& options);

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

struct CompareArguments : Comparison {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
};

/// Trains every variant with every seed on strings of digits, as far as that is not done yet, and
/// prints a table of their errors on single digits, on strings of lengths that were trained on, and
/// on longer ones, by attention and CTC and by attention alone.
int compare(CompareArguments options);

}  // namespace attune::speech
