#include <fmt/format.h>

#include <attune/models/presets.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

#include "model.hpp"
#include "support/checkpoint.hpp"
#include "train.hpp"

namespace attune::translate {
namespace {

using Field = models::OptionField<TrainOptions>;
using Options = TrainOptions;

Field number(const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Options>(name, help, member, low, high);
}
Field text(const char* name, const char* help, auto member) {
  return models::text_field<Options>(name, help, member);
}
template <class T>
Field choice(const char* name, const char* help, auto member,
             std::vector<std::pair<T, std::string>> names) {
  return models::choice_field<Options, T>(name, help, member, std::move(names));
}

Field of_learnt_subwords(Field field) {
  return models::only_with<Options>(
      "tokens bpe or unigram",
      [](const Options& o) { return o.tokens == Tokens::bpe || o.tokens == Tokens::unigram; },
      std::move(field));
}

constexpr double many = 1e9;

std::vector<Field> data_fields() {
  return {
      text("source",
           "text to translate from, a sentence on each line; without a target, lines of "
           "source TAB target",
           &Options::source),
      text("target", "the same sentences in the other language", &Options::target),
      text("valid-source", "sentences to choose the best weights by, in the same forms",
           &Options::valid_source),
      text("valid-target", "their translations", &Options::valid_target),
      swap_field<Options>(&Options::columns),
      choice<Tokens>("tokens",
                     "what lines are cut into: words between blanks, characters, or subwords "
                     "learnt from the text",
                     &Options::tokens,
                     {{Tokens::words, "words"},
                      {Tokens::characters, "characters"},
                      {Tokens::bpe, "bpe"},
                      {Tokens::unigram, "unigram"}}),
      of_learnt_subwords(number("pieces", "subwords to learn, of each side or of both",
                                &Options::pieces, 10, many)),
      of_learnt_subwords(number("learn-from",
                                "most lines to learn subwords from; of more, so many are drawn",
                                &Options::learn_from, 1, many)),
      text("source-pieces", "model of sentencepiece for the source, or for both, instead of tokens",
           &Options::source_pieces),
      text("target-pieces", "model of sentencepiece for the target", &Options::target_pieces),
      text("source-vocabulary",
           "file with a token on each line: those of the source, or of both, that are not <unk>",
           &Options::source_vocabulary),
      text("target-vocabulary", "the same for the target", &Options::target_vocabulary),
      choice<Joint>("joint", "whether both sides have the same subwords and one vocabulary",
                    &Options::joint, {{Joint::no, "no"}, {Joint::yes, "yes"}}),
      choice<Truecase>("truecase",
                       "whether words at the beginning of sentences and lines in capitals get the "
                       "case that they mostly have; translations begin as the target's lines do",
                       &Options::truecase, {{Truecase::no, "no"}, {Truecase::yes, "yes"}}),
      number("min-count", "tokens that are rarer become <unk>, where no vocabulary is given",
             &Options::minimum_count, 1, many),
      number("vocabulary", "largest vocabulary of a side, where none is given; 0: any",
             &Options::maximum_vocabulary, 0, many),
      number("max-tokens", "tokens of a side beyond which a pair is not trained on",
             &Options::longest, 1, many),
      text(
          "alignments",
          "links between words of each pair, as 0-0 1-2, source first, that attention is guided by",
          &Options::alignments)};
}

std::vector<Field> training_fields() {
  return {number("batch", "sentences in a batch", &Options::batch, 1, many),
          number("batch-tokens",
                 "instead: target words in a batch, padding included; 0: count sentences",
                 &Options::batch_tokens, 0, many),
          number("epochs", "most times to go through the text", &Options::epochs, 1, many),
          number("minutes", "most minutes to train; 0: any", &Options::minutes, 0, many),
          number("rate", "learning rate of Adam", &Options::rate, 1e-9, 10),
          choice<RateSchedule>(
              "schedule", "rate after the warm-up", &Options::schedule,
              {{RateSchedule::constant, "constant"}, {RateSchedule::inverse_sqrt, "inverse-sqrt"}}),
          number("warm-up", "updates in which the rate rises", &Options::warm_up, 0, many),
          number("halve", "validations without a new best after which the rate is halved; 0: never",
                 &Options::halve, 0, many),
          number("weight-decay", "decoupled, of matrices", &Options::weight_decay, 0, 10),
          models::only_with<Options>(
              "alignments", [](const Options& o) { return !o.alignments.empty(); },
              number("guided-alignment",
                     "with --alignments: weight of the loss that compares attention with them",
                     &Options::guided_alignment, 0, many)),
          number("seed", "of initial values, the order of sentences and dropout", &Options::seed, 0,
                 1e18)};
}

std::vector<Field> validation_fields() {
  return {choice<Metric>("metric", "by which the best weights are chosen", &Options::metric,
                         {{Metric::bleu, "bleu"}, {Metric::loss, "loss"}}),
          choice<metrics::BleuTokens>(
              "bleu",
              "what BLEU counts: words as of sacreBLEU's 13a, for text as "
              "people write it, or all between blanks",
              &Options::bleu,
              {{metrics::BleuTokens::mteval_13a, "13a"}, {metrics::BleuTokens::none, "none"}}),
          number("beam", "hypotheses of the search for validation", &Options::beam, 1, 1000),
          number("patience", "validations without a new best after which training ends",
                 &Options::patience, 1, many)};
}

}  // namespace

std::span<const Field> train_fields() {
  static const std::vector<Field> fields = joined<Options>(
      {data_fields(), training_fields(), common_training_fields<Options>(), validation_fields()});
  return fields;
}

ModelOptions model_options(std::string_view preset) {
  const models::Preset& published = models::preset(preset);
  models::Seq2SeqOptions o = published.options;
  o.embedding = 256;
  o.hidden = o.score.attention = o.readout = 256;
  o.dropout = 0.2;
  o.label_smoothing = 0.1;
  return {std::string(published.name), o};
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format, [](const Safetensors& file) {
    TrainOptions options;
    options.model.name = nn::load_text(file.metadata, "preset");
    reading("preset", [&] { return models::preset(options.model.name); });
    options.model.network = models::seq2seq_options_from(file.metadata);
    Metadata metadata = file.metadata;  // an older one has fewer options
    metadata.merge(models::fields_to_map(train_fields(), TrainOptions{}));
    models::set_fields_from(train_fields(), options, metadata);
    return options;
  });
}

}  // namespace attune::translate
