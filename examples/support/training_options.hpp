// What every training has options for.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <vector>

#include <attune/models/option_field.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

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
};

/// The options that every training has.
template <class Options>
std::vector<models::OptionField<Options>> common_training_fields() {
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

/// Groups of options, one after the other.
template <class Options>
std::vector<models::OptionField<Options>> joined(
    std::initializer_list<std::vector<models::OptionField<Options>>> groups) {
  std::vector<models::OptionField<Options>> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// `rate` for half of the steps, then in a straight line down to 2 % of it.
inline nn::LinearDecay late_decay(double rate, Index steps) {
  return {.rate = rate, .last = rate / 50, .steps = steps, .after = steps / 2};
}

}  // namespace attune
