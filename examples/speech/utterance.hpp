// What was said.
#pragma once

#include <vector>

#include <attune/models/text/batches.hpp>

namespace attune::speech {

/// A waveform, and its tokens.
struct Utterance {
  std::vector<float> samples;
  text::Sentence tokens;
  std::vector<std::size_t> ends;  // samples after which each token ends, where that is known
};

}  // namespace attune::speech
