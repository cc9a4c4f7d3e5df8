// What a model hears, and how well.
#pragma once

#include "model.hpp"
#include "support/error_counts.hpp"
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

/// By the number of tokens that were said.
CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options);

}  // namespace attune::speech
