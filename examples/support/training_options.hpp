// What every training has options for.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <attune/models/option_field.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/safetensors.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

template <class Options>
using Fields = std::vector<models::OptionField<Options>>;

struct TrainingOptions {
  std::filesystem::path out;
  bool resume = false;
  bool report = true;  // in the end
  double rate = 2e-3;
  Index batch = 64;
  Index validate_every = 500;
  double clip = 1;
  Index max_skipped = 10;
  double average = 0;
  Precision precision = Precision::f32;
  Index shards = 1;
  double minutes = 0;  // after which a run ends; 0: any

  std::filesystem::path last() const { return out / "last.safetensors"; }
  bool resumes() const { return resume && std::filesystem::exists(last()); }
};

/// The options that every training has.
template <class Options>
Fields<Options> common_training_fields() {
  using models::number_field;
  constexpr double many = 1e9;
  return {number_field<Options>(
              "average", "decay of a moving average of the weights, which is validated; 0: none",
              &Options::average, 0, 0.999999),
          number_field<Options>("clip", "largest global norm of the gradients", &Options::clip,
                                1e-9, many),
          number_field<Options>("max-skipped",
                                "end training when this many updates in a row have a loss or "
                                "gradients that are not finite",
                                &Options::max_skipped, 1, many),
          models::choice_field<Options, Precision>(
              "precision",
              "of matrix products in training: bf16 where the CPU has it (weights stay f32)",
              &Options::precision, {{Precision::f32, "f32"}, {Precision::bf16, "bf16"}}),
          number_field<Options>("shards",
                                "parts of a batch whose gradients are added; at most as many "
                                "workers can share them (mpirun -n WORKERS)",
                                &Options::shards, 1, 1 << 16),
          number_field<Options>("validate-every",
                                "updates between validations, each of which saves a checkpoint",
                                &Options::validate_every, 1, many)};
}

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

/// Groups of options, one after the other.
template <class Options>
Fields<Options> joined(std::initializer_list<Fields<Options>> groups) {
  Fields<Options> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// `rate` for half of the steps, then in a straight line down to 2 % of it.
inline nn::LinearDecay late_decay(double rate, Index steps) {
  return {.rate = rate, .last = rate / 50, .steps = steps, .after = steps / 2};
}

}  // namespace attune
