// Every option of the program: one list for each struct serves the command line, config files,
// --help and checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/models/any_model.hpp>
#include <attune/models/metrics.hpp>
#include <attune/models/options.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::pairs {

// Of each enumeration, options.cpp has the names in the order of the values.

/// What a line is cut into.
enum class Tokens { automatic, words, characters, decomposed, bpe, unigram };
/// By what the best weights are chosen.
enum class Metric { automatic, exact, bleu, loss };
/// The learning rate after the warm-up.
enum class RateSchedule { constant, late_decay, inverse_sqrt };

/// Where pairs are: two text files or, without a target, a TSV with such columns.
struct PairFiles {
  std::filesystem::path source, target;
  text::Columns columns = text::Columns::source_first;
  bool nfc = false;  // whether characters are composed

  std::string name() const {
    return target.empty() ? source.string() : source.string() + " and " + target.string();
  }
};

struct TrainOptions {
  std::filesystem::path out = "attune-model";
  bool resume = false;
  std::string config;  // files that more of them come from
  std::filesystem::path train, train_target, valid, valid_target;
  text::Columns columns = text::Columns::source_first;
  Index held_out = 1000;
  Tokens tokens = Tokens::automatic, source_tokens = Tokens::automatic,
         target_tokens = Tokens::automatic;
  Index pieces = 8000;
  std::string source_pieces, target_pieces, source_vocabulary, target_vocabulary;
  bool joint = false, truecase = false, nfc = true;
  Index minimum_count = 1;
  Index maximum_vocabulary = 0;
  Index longest = 100;
  std::string alignments;

  bool sentences = true;  // whether defaults suit sentences, or shorter pairs
  models::AnyModelOptions model;

  Index steps = 0, epochs = 0;
  double minutes = 0;  // after which a run ends; 0: any
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

  Index seeds = 1;  // trainings, each with a directory of its own where there are several
  Index jobs = 0;   // of several trainings at once; 0: one for each CPU

  Index threads = 0;

  std::filesystem::path last() const { return out / "last.safetensors"; }
  bool resumes() const { return resume && std::filesystem::exists(last()); }
  PairFiles train_files() const { return {train, train_target, columns, nfc}; }
  PairFiles valid_files() const { return {valid, valid_target, columns, nfc}; }
};

/// How predictions are written.
enum class PredictFormat { columns, text };
/// What is aligned: the words between blanks, or the tokens of the model.
enum class AlignUnits { words, tokens };
/// automatic: by the end of the file's name; without one, or with .txt, as for a terminal.
enum class AlignFormat { automatic, html, json, pharaoh, svg, terminal };
/// What BLEU counts; trained: as in the model's training.
enum class BleuChoice { trained, mteval_13a, none };

/// Of all commands beside `train`.
struct UseOptions {
  std::optional<TrainOptions> trained;        // empty: as the checkpoint says
  std::vector<std::filesystem::path> models;  // empty: the model that was trained last
  std::vector<std::string> sources;           // to predict; empty: a file or standard input
  std::filesystem::path file, target;
  text::Columns columns = text::Columns::source_first;
  models::SearchOptions search = {.beam = 5, .max_length = 0, .length_penalty = -1};
  Index batch = 64;
  bool json = false;
  PredictFormat format = PredictFormat::columns;
  bool replace_unknown = false;  // by the source's token with the largest attention weight
  bool sample = false;           // instead of searching
  models::SamplingOptions sampling;
  BleuChoice bleu = BleuChoice::trained;
  std::vector<std::filesystem::path> references;
  std::filesystem::path out;
  std::vector<Index> lengths = {8, 12, 16, 20};
  AlignFormat align_format = AlignFormat::automatic;
  AlignUnits units = AlignUnits::words;
  std::string gold;
  std::filesystem::path live;  // a page that examples/page/build.sh made; empty: a report
  std::string exported;        // what names of exported files begin with
  std::string config;
  Index threads = 0;
};

/// Commands, as bits.
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

/// Under the headings Data, Model, Training, Validation and Run. Those of the model are the named
/// model's; set_model changes which these are.
models::OptionList options_of(TrainOptions& options);
/// Those of the other commands, for the ones that `commands` has.
models::OptionList options_of(UseOptions& options, unsigned commands);

/// Defaults that suit sentences, or shorter pairs.
TrainOptions train_options(bool sentences);
/// Another model's options, with sizes that suit the data.
void set_model(TrainOptions& options, const std::string& name);

/// An option as it was given: on the command line, or in a line of a config file, which is its
/// `place` then.
struct Given {
  std::string name, value, place = {};
};
/// The lines NAME = VALUE of a file, which may also have empty lines and those that begin with #.
std::vector<Given> read_config(const std::filesystem::path& path);
/// Sets what was given in that order, a model first. Throws for an option that there is not, and as
/// `set` does.
void set_given(TrainOptions& options, const std::vector<Given>& given);
void set_given(const models::OptionList& options, const std::vector<Given>& given);
/// Throws for an option of the command line that has no effect.
void check_effects(const models::OptionList& options, const std::vector<Given>& given);

/// As metadata of a checkpoint, and back: all but the group Run. Throws for an entry that is missing
/// or not understood.
Metadata to_metadata(const TrainOptions& options);
TrainOptions train_options_from(const Metadata& metadata);
/// Those of a run that is to be resumed from this checkpoint.
TrainOptions stored_options(const std::filesystem::path& checkpoint);
/// Throws an Error that names the first option which a resumed run may not change.
void check_same(const TrainOptions& stored, const TrainOptions& given);

}  // namespace attune::pairs
