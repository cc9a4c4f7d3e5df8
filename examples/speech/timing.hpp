// When each token was heard.
#pragma once

#include <utility>

#include "evaluation.hpp"

namespace attune::speech {

/// A token, and from when to when, in seconds.
struct Timed {
  std::string token;
  double begin, end;
  double probability;
};

/// weights (U, S), a row for each token and perhaps more, as stretches [begin, end) of 0 to S, in
/// order and without gaps: they are cut so that the tokens have as much weight as possible within
/// their own, and then anew between the centres of these weights. Where a decoder looks, at the
/// beginning of a word or at its end, is seen from the first one, which begins at 0, and the last one,
/// which ends at S. Throws when there are fewer places than tokens.
std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens);

/// By what the decoder attended to. Throws for a model that does not attend.
std::vector<Timed> timed(const Model& model, const models::Hypothesis& hypothesis);

/// Given tokens, in each utterance.
std::vector<std::vector<Timed>> align(const Model& model, std::span<const Utterance> utterances);

}  // namespace attune::speech
