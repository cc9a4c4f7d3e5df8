#include <algorithm>

#include <fmt/format.h>

#include <attune/models/presets.hpp>

#include "train.hpp"

namespace attune::dates {
namespace {

using Options = TrainOptions;
using Field = models::OptionField<Options>;

Field number(const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Options>(name, help, member, low, high);
}
Field text(const char* name, const char* help, auto member) {
  return models::text_field<Options>(name, help, member);
}

constexpr double many = 1e9;

std::vector<Field> training_fields() {
  return {number("steps", "batches to train on; 0: 2000, or 150 for each locale if these are more",
                 &Options::steps, 0, many),
          number("batch", "examples in a batch", &Options::batch, 1, 1 << 16),
          number("rate",
                 "learning rate of Adam: constant for half of the steps, then down to 2 % of it",
                 &Options::rate, 1e-9, 10),
          number(
              "seed", "of initial values, examples and dropout",
              [](Options & o) -> auto& { return o.data.seed; }, 0, 0x1p64)};
}

std::vector<Field> data_fields() {
  return {text(
              "locales", "whose dates to generate: en, a list such as en,de,ja, or all",
              [](Options & o) -> auto& { return o.data.locales; }),
          number(
              "held-out", "dates kept for validation",
              [](Options & o) -> auto& { return o.data.held_out; }, 1, 36524),
          text(
              "train", "TSV file (source TAB target) to train on instead",
              [](Options & o) -> auto& { return o.data.train_file; }),
          text(
              "valid", "TSV file to validate on instead",
              [](Options & o) -> auto& { return o.data.valid_file; }),
          swap_field<Options>([](auto& o) -> auto& { return o.data.columns; })};
}

}  // namespace

std::span<const Field> train_fields() {
  static const std::vector<Field> fields =
      joined<Options>({training_fields(), common_training_fields<Options>(), data_fields()});
  return fields;
}

TrainOptions train_options_from(Metadata metadata) {
  // Older checkpoints have another hyphen.
  for (auto [older, name] :
       {std::pair{"validate_every", "validate-every"}, {"held_out", "held-out"}}) {
    if (metadata.contains(older)) metadata.emplace(name, metadata[older]);
  }
  TrainOptions options;
  options.model = model_options_from(metadata);
  models::preset(options.model.name);  // throws where there is none of that name
  models::set_fields_from(train_fields(), options, metadata,
                          {"average", "gradients", "max-skipped", "shards", "swap"});
  return options;
}

TrainOptions with_steps(TrainOptions options) {
  if (options.steps > 0) return options;
  options.steps = 2000;
  if (options.data.train_file.empty())
    options.steps = std::max(options.steps, 150 * std::ssize(parse_locales(options.data.locales)));
  return options;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format,
                         [](const Safetensors& file) { return train_options_from(file.metadata); });
}

void check_same(const TrainOptions& stored, const TrainOptions& given, const char* operation) {
  check_same_training(operation, stored, given, train_fields(),
                      {"steps", "validate-every", "max-skipped"});
}

}  // namespace attune::dates
