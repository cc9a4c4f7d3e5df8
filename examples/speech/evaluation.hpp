// What a model hears, and how well.
#pragma once

#include <map>

#include <attune/models/metrics/error_rate.hpp>

#include "model.hpp"
#include "utterance.hpp"

namespace attune::speech {

/// How to search.
struct HearOptions {
  Index beam = 4;
  bool ctc = true;  // whether CTC takes part, where the model has it
};

/// The best tokens of each waveform, in batches of similar lengths: as many at most as there are
/// annotations.
std::vector<models::Hypothesis> recognise(const Model& model,
                                          std::span<const std::vector<float>> waveforms,
                                          const HearOptions& options);

/// The counts of some utterances.
struct Counts {
  metrics::Edits edits;
  std::int64_t utterances = 0, right = 0;  // right: without any edit

  double share_right() const {
    return static_cast<double>(right) / static_cast<double>(utterances);
  }
  Counts& operator+=(const Counts& other);
};

/// By the number of tokens that were said.
using CountsByLength = std::map<std::size_t, Counts>;

CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options);
/// Of all lengths.
Counts total(const CountsByLength& counts);

}  // namespace attune::speech
