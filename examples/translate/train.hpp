// `translate train`
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/text/corpus.hpp>

#include "support/model_options.hpp"
#include "support/training_options.hpp"

namespace attune::translate {

/// What a line is cut into.
enum class Tokens { words, characters, bpe, unigram };

/// Whether both sides are cut by one model, learnt on both, and have one vocabulary.
enum class Joint { no, yes };

/// Whether words have the case that they mostly have: text::Truecaser.
enum class Truecase { no, yes };

/// By what the best weights are chosen.
enum class Metric { bleu, loss };

/// How the learning rate goes on after the warm-up.
enum class RateSchedule { constant, inverse_sqrt };

/// A published model in sizes that suit a small corpus. Throws on another name.
ModelOptions model_options(std::string_view preset);

struct TrainOptions : TrainingOptions {
  TrainOptions() : TrainingOptions{.out = "translate-model"} {}
  std::string config;  // a file that more of them came from
  ModelOptions model = model_options("conditional");

  std::string source, target, valid_source, valid_target;
  text::Columns columns = text::Columns::source_first;
  Tokens tokens = Tokens::bpe;
  Index pieces = 8000;
  Index learn_from = 1'000'000;
  std::string source_pieces, target_pieces, source_vocabulary, target_vocabulary;
  Joint joint = Joint::no;
  Truecase truecase = Truecase::no;
  Index minimum_count = 1;
  Index maximum_vocabulary = 0;
  Index longest = 100;
  std::string alignments;

  Index batch_tokens = 0;
  Index epochs = 30;
  RateSchedule schedule = RateSchedule::constant;
  Index warm_up = 0;
  double weight_decay = 0;
  double guided_alignment = 1;
  std::uint64_t seed = 1;

  Metric metric = Metric::bleu;
  Index beam = 1;
  metrics::BleuTokens bleu = metrics::BleuTokens::mteval_13a;
  Index patience = 10;
  Index halve = 0;
};

/// Everything but `out`, `resume` and the model: names, help and checks.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// The options of a run that is to be resumed from this checkpoint. Errors begin with the path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Trains until one of the limits is reached, or until interrupted. Returns the exit status: 0, or
/// 128 + the number of a signal, which is 130 after Ctrl-C.
int train(const TrainOptions& options);

}  // namespace attune::translate
