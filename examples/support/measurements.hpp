// What programs that learn from measurements share: options, resuming, variants, learning curves.
#pragma once

#include <attune/models/option_field.hpp>

#include "support/frames.hpp"
#include "support/page.hpp"
#include "support/run.hpp"

namespace attune {

template <class Options>
using Fields = std::vector<models::OptionField<Options>>;

/// --steps, --batch, --rate and --seed. The texts say what a batch consists of, how the learning
/// rate changes, and what the seed decides.
template <class Options>
Fields<Options> step_fields(const std::string& batch, const std::string& rate,
                            const std::string& seed) {
  using models::number_field;
  return {number_field<Options>("steps", "batches to train on", &Options::steps, 1, 1e9),
          number_field<Options>("batch", batch + " in a batch", &Options::batch, 1, 1 << 16),
          number_field<Options>("rate", "learning rate of Adam: " + rate, &Options::rate, 1e-9, 10),
          number_field<Options>("seed", "of initial values, " + seed, &Options::seed, 0, 0x1p64)};
}

template <class Options>
Metadata to_metadata(const Fields<Options>& fields, const Options& options) {
  return models::fields_to_map(std::span<const models::OptionField<Options>>(fields), options);
}

template <class Options>
Options options_from(const Fields<Options>& fields, const Metadata& metadata) {
  Options options;
  models::set_fields_from(std::span<const models::OptionField<Options>>(fields), options, metadata);
  return options;
}

/// Throws for the first option in which a run that is to be resumed differs from the stored one;
/// `free` names those that may differ, beside the number of steps and the like.
template <class Options>
void check_resumable(const Fields<Options>& fields, const Options& stored, const Options& given,
                     std::vector<std::string> free) {
  const Metadata before = to_metadata(fields, stored);
  Metadata after = to_metadata(fields, given);
  free.insert(free.end(), {"steps", "validate-every", "max-skipped"});
  for (const std::string& name : free) after[name] = before.at(name);
  check_same("--resume", given.out / "last.safetensors", before, after);
}

/// Changes of options by name, under which they stand in a table of results.
struct Variant {
  std::string name;
  std::vector<std::pair<std::string, std::string>> changes = {};
};

template <class Options>
Options changed(const Fields<Options>& fields, Options options, const Variant& variant) {
  for (const auto& [name, value] : variant.changes)
    models::set_field(std::span<const models::OptionField<Options>>(fields), options, name, value);
  return options;
}

/// A field of the log, its name in a chart, and what it is multiplied by.
struct LoggedField {
  std::string field, name;
  double scale = 1;
};

/// A chart of learning curves, where there is a log.
void add_learning_curves(report::Page& page, const std::filesystem::path& log,
                         const std::string& y_label, const std::vector<LoggedField>& fields,
                         bool log_y = false);

}  // namespace attune
