#include <fmt/format.h>

#include <attune/models/presets.hpp>

#include "support/hash.hpp"
#include "support/hold_out.hpp"
#include "train.hpp"

namespace attune::transduce {
namespace {

using Options = TrainOptions;
using Field = models::OptionField<Options>;
using models::choice_field, models::number_field, models::text_field;

constexpr double many = 1e9;

std::vector<Field> training_fields() {
  return {
      number_field<Options>(
          "steps",
          "batches to train on; 0: 8000, or as many as go through the pairs 12 times, if these "
          "are more",
          &Options::steps, 0, many),
      number_field<Options>("batch", "pairs in a batch", &Options::batch, 1, 1 << 16),
      number_field<Options>("minutes", "most minutes to train; 0: any", &Options::minutes, 0, many),
      number_field<Options>(
          "rate", "learning rate of Adam: constant for half of the steps, then down to 2 % of it",
          &Options::rate, 1e-9, 10),
      number_field<Options>("patience",
                            "validations without a new best after which training ends, also before "
                            "the rate goes down",
                            &Options::patience, 1, many),
      number_field<Options>("seed", "of initial values, the order of pairs and dropout",
                            &Options::seed, 0, 0x1p64)};
}

Field units_field(const char* name, Units Options::*member, const std::string& help) {
  return choice_field<Options, Units>(name, help, member,
                                      {{Units::automatic, "auto"},
                                       {Units::characters, "characters"},
                                       {Units::decomposed, "decomposed"},
                                       {Units::words, "words"},
                                       {Units::subwords, "subwords"}});
}

std::vector<Field> data_fields() {
  return {
      text_field<Options>("train", "file to train on: source TAB target, a line each",
                          &Options::train),
      text_field<Options>("valid",
                          "file to choose the best weights by (default: a tenth of the pairs "
                          "to train on, which are then left out)",
                          &Options::valid),
      number_field<Options>("held-out", "pairs that are left out at most", &Options::held_out, 1,
                            many),
      swap_field<Options>(&Options::columns),
      units_field("source-units", &Options::source_units,
                  "what the source is cut into; words: what stands between blanks; decomposed: "
                  "characters, of which accents and the letters of Hangul syllables are some; "
                  "auto: words where these are symbols of 2.5 characters at most in the mean, "
                  "such as phones, otherwise decomposed characters"),
      units_field("target-units", &Options::target_units,
                  "the same of the target; auto: words or characters"),
      models::only_with<Options>(
          "subwords of the source or the target",
          [](const Options& o) {
            return o.source_units == Units::subwords || o.target_units == Units::subwords;
          },
          number_field<Options>("pieces", "subwords to learn, of each side that is cut into them",
                                &Options::pieces, 10, many))};
}

}  // namespace

std::span<const Field> train_fields() {
  static const std::vector<Field> fields =
      joined<Options>({training_fields(), common_training_fields<Options>(), data_fields()});
  return fields;
}

TrainOptions train_options_from(const Metadata& metadata) {
  TrainOptions options;
  options.model = model_options_from(metadata);
  models::preset(options.model.name);  // throws where there is none of that name
  models::set_fields_from(train_fields(), options, metadata);
  return options;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format,
                         [](const Safetensors& file) { return train_options_from(file.metadata); });
}

std::string Data::fingerprint() const { return attune::fingerprint(train, valid); }

Data read_data(const TrainOptions& options) {
  if (options.train.empty())
    fail("--train", "a file of pairs was expected: source TAB target, a line each");
  for (const std::string& path : {options.train, options.valid}) {
    if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))
      fail(path, "not a regular file, but it is read more than once");
  }
  Data data{read_pairs(options.train, options.columns), {}};
  // The same ones for each seed: models of several seeds are measured together.
  data.valid = options.valid.empty()
                   ? hold_out(data.train, options.held_out, /*seed=*/1, options.train)
                   : read_pairs(options.valid, options.columns);
  return data;
}

}  // namespace attune::transduce
