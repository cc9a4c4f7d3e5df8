// When each token was heard.
#pragma once

#include <utility>

#include <nlohmann/json.hpp>

#include "evaluation.hpp"

namespace attune::speech {

/// A token, and from when to when, in seconds.
struct Timed {
  std::string token;
  double begin, end;
  double probability;
};

/// Cuts the places 0 to S of weights (U, S) into a stretch [begin, end) for each of the first
/// `tokens` rows, in order and without gaps. First the cuts with the largest sum of weights inside
/// the tokens' own stretches; then new cuts between the centres of these weights. A decoder may
/// look at the beginnings of words or at their ends: where between two centres to cut is seen from
/// the first word, which begins at 0, and the last one, which ends at S. Throws when there are
/// fewer places than tokens.
std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens);

/// By what the decoder attended to in a recording of so many seconds. The model must attend, and
/// there must be as many annotations as tokens. Throws where the scores are not numbers.
std::vector<Timed> timed(const Model& model, const models::Hypothesis& hypothesis, double seconds);
nlohmann::ordered_json json_of(std::span<const Timed> tokens);

/// Given tokens. Throws as `timed` and `stretches` do.
std::vector<Timed> align(const Model& model, const Utterance& utterance);

}  // namespace attune::speech
