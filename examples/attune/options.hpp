// The options of the program. One list per struct serves the command line, config files, --help and
// checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <attune/models/by_name.hpp>
#include <attune/models/options.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/metrics.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/safetensors.hpp>

#include "common.hpp"
#include "run_directory.hpp"

namespace attune::pairs {

using examples::Given;

// options.cpp lists the names of each enumeration's values, in the same order.

/// Tokenisation.
enum class Tokens { automatic, words, characters, decomposed, bpe, unigram };
inline bool are_subwords(Tokens t) { return t == Tokens::bpe || t == Tokens::unigram; }
/// The metric that selects the best weights.
enum class Metric { automatic, exact, bleu, loss };
/// Learning-rate schedule after the warm-up.
enum class RateSchedule { constant, late_decay, inverse_sqrt };

/// Files of pairs: two text files or, if `target` is empty, a TSV with these columns.
struct PairFiles {
  std::filesystem::path source, target;
  text::Columns columns = text::Columns::source_first;
  bool nfc = false;                      // normalise to Unicode's NFC
  std::optional<std::string> text = {};  // content of `source`, if it is not a regular file

  std::string name() const {
    return target.empty() ? source.string() : source.string() + " and " + target.string();
  }
};

struct TrainOptions {
  std::filesystem::path out = "attune-model";
  bool resume = false;
  std::filesystem::path from;  // model whose weights a new training starts from; empty: random
  std::string config;          // config files
  std::filesystem::path train, train_target, valid, valid_target;
  text::Columns columns = text::Columns::source_first;
  Index held_out = 1000;
  Tokens tokens = Tokens::automatic, source_tokens = Tokens::automatic,
         target_tokens = Tokens::automatic;
  Index pieces = 8000;
  bool learns_subwords = true;  // false if `automatic` chooses other tokens
  std::string source_pieces, target_pieces, source_vocabulary, target_vocabulary;
  bool joint = false, truecase = false, nfc = true;
  Index minimum_count = 1;
  Index maximum_vocabulary = 0;
  Index longest = 100;
  std::string alignments;
  bool shortlist = false;

  bool sentences = true;  // defaults for sentences; false: for shorter pairs
  models::ModelOptions model;

  Index steps = 0, epochs = 0;
  double minutes = 0;  // time limit; 0: none
  Index batch = 64;
  Index batch_tokens = 0;
  Index pool = 10'000;
  double rate = 2e-3, beta2 = 0.999;
  RateSchedule schedule = RateSchedule::constant;
  Index warm_up = 0;
  Index halve = 0;
  double weight_decay = 0;
  double guided_alignment = 1;
  std::uint64_t seed = 1;
  double average = 0;
  Precision precision = Precision::f32;
  Index shards = 1;

  Index validate_every = 500;
  Metric metric = Metric::automatic;
  Index beam = 1;
  metrics::BleuTokens bleu = metrics::BleuTokens::mteval_13a;
  Index patience = 10;

  Index seeds = 1;  // number of trainings; if more than 1, each has its own directory
  Index jobs = 0;   // trainings that run in parallel; 0: one per thread

  Index threads = 0;

  std::filesystem::path last() const { return out / last_file; }
  bool resumes() const { return resume && std::filesystem::exists(last()); }
  PairFiles train_files() const { return {train, train_target, columns, nfc}; }
  PairFiles valid_files() const { return {valid, valid_target, columns, nfc}; }
};

/// Output format of predictions.
enum class PredictFormat { columns, text };
/// Units of an alignment: words (split at blanks), or the model's tokens; automatic: words of
/// sentences.
enum class AlignUnits { automatic, words, tokens };
/// automatic: by the extension of --out; terminal without one, or for .txt.
enum class AlignFormat { automatic, html, json, pharaoh, svg, terminal };
/// Tokenisation for BLEU; trained: as in the model's training.
enum class BleuChoice { trained, mteval_13a, none };

/// Options of all commands except `train`.
struct UseOptions {
  std::optional<TrainOptions> trained;        // options of the training; empty: read the checkpoint
  std::vector<std::filesystem::path> models;  // empty: the model trained last
  std::vector<std::string> sources;           // empty: lines of a file or of standard input
  std::filesystem::path file, target;
  std::optional<std::string> text;  // content of `file`, if it is not a regular file
  text::Columns columns = text::Columns::source_first;
  models::SearchOptions search = {.beam = 5, .max_length = 0, .length_penalty = -1};
  bool shortlist = false;  // decode with the model's table of likely target tokens
  Index batch = 64;
  bool json = false;
  PredictFormat format = PredictFormat::columns;
  bool heatmap = false;          // draw attention weights even if the output is not a terminal
  bool replace_unknown = false;  // <unk> by the source token with the largest attention weight
  bool sample = false;           // instead of beam search
  models::SamplingOptions sampling;
  BleuChoice bleu = BleuChoice::trained;
  std::vector<std::filesystem::path> references;
  std::filesystem::path out;
  std::vector<Index> lengths = {8, 12, 16, 20};
  AlignFormat align_format = AlignFormat::automatic;
  AlignUnits units = AlignUnits::automatic;
  std::string gold;
  std::string exported;  // prefix of exported files
  std::string config;
  Index threads = 0;
};

/// Commands, as bit flags.
enum : unsigned {
  predict_command = 1,
  evaluate_command = 2,
  align_command = 4,
  score_command = 8,
  compare_command = 16,
  report_command = 32,
  average_command = 64,
  inspect_command = 128,
};

/// Options in the groups Data, Model, Training, Validation and Run. The group Model depends on
/// `options.model.name`, which set_model changes.
models::OptionList fields_of(TrainOptions& options);
const models::OptionTable<TrainOptions>& options_of(const TrainOptions& options);
/// Options of the given commands (bit flags).
models::OptionTable<UseOptions> options_of(const UseOptions& options, unsigned commands);

/// Defaults for sentences, or for shorter pairs.
TrainOptions train_options(bool sentences);
/// Selects a model by name and sets default sizes that depend on `options.sentences`.
void set_model(TrainOptions& options, const std::string& name);

/// Reads lines NAME = VALUE. Skips empty lines and lines that begin with #.
std::vector<Given> read_config(const std::filesystem::path& path);
/// Sets the options in order, but "model" first. Throws for an unknown option or an invalid value.
void set_given(TrainOptions& options, const std::vector<Given>& given);
void set_given(UseOptions& options, unsigned command, const std::vector<Given>& given);

/// Converts to and from the metadata of a checkpoint: all options except the group Run. Throws for
/// a missing or invalid entry.
Metadata to_metadata(const TrainOptions& options);
TrainOptions train_options_from(const Metadata& metadata);
/// The training options stored in a checkpoint.
TrainOptions stored_options(const std::filesystem::path& checkpoint);
/// Throws an Error that names the first changed option of `given` that must be as `stored`: in the
/// checkpoint of a resumed run, otherwise in the model of --from.
void check_same(const TrainOptions& stored, const TrainOptions& given);

}  // namespace attune::pairs
