#include "timing.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/models/frames/batches.hpp>
#include <attune/tensor/check.hpp>

namespace attune::speech {

namespace {

/// The ends of the stretches with the largest sum of weights.
std::vector<Index> ends_with_most_weight(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  const float* w = weights.data<float>();
  const auto at = [=](Index u, Index s) { return static_cast<std::size_t>(u * (places + 1) + s); };
  // The most weight of the first u tokens within the first s places; whether place s - 1 begins
  // one.
  std::vector<double> best(at(tokens, places) + 1, -1);
  std::vector<char> begins(best.size(), 0);
  best[0] = 0;
  for (Index u = 1; u <= tokens; ++u) {
    for (Index s = u; s <= places; ++s) {
      const double before = best[at(u - 1, s - 1)], same = best[at(u, s - 1)];
      begins[at(u, s)] = s == u || before > same;
      best[at(u, s)] = std::max(before, same) + static_cast<double>(w[(u - 1) * places + s - 1]);
    }
  }
  std::vector<Index> ends(static_cast<std::size_t>(tokens));
  Index s = places;
  for (Index u = tokens; u > 0; --u) {
    ends[u - 1] = s;
    while (!begins[at(u, s)]) --s;
    --s;
  }
  return ends;
}

/// For each token the mean place, from 0 to S, of its weights within its own stretch.
std::vector<double> centres(const Tensor& weights, const std::vector<Index>& ends) {
  const float* w = weights.data<float>();
  std::vector<double> all;
  Index begin = 0;
  for (const Index end : ends) {
    double sum = 0, places = 0;
    for (Index s = begin; s < end; ++s) {
      sum += static_cast<double>(w[s]);
      places += static_cast<double>(w[s]) * (static_cast<double>(s) + 0.5);
    }
    all.push_back(sum > 0 ? places / sum : static_cast<double>(begin + end) / 2);
    begin = end;
    w += weights.dim(1);
  }
  return all;
}

}  // namespace

std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  if (tokens > places)
    fail("align", fmt::format("{} tokens do not fit into {} annotations", tokens, places));
  if (tokens == 0) return {};
  const std::vector<double> c = centres(weights, ends_with_most_weight(weights, tokens));
  const double before = c.front(), after = static_cast<double>(places) - c.back();
  std::vector<std::pair<Index, Index>> all{{0, places}};
  for (Index u = 1; u < tokens; ++u) {
    const double cut = c[u - 1] + (c[u] - c[u - 1]) * after / (before + after);
    const Index place =
        std::clamp<Index>(std::lround(cut), all.back().first + 1, places - (tokens - u));
    all.back().second = place;
    all.emplace_back(place, places);
  }
  return all;
}

std::vector<Timed> timed(const Model& model, const models::Hypothesis& h, double seconds) {
  if (!std::isfinite(h.log_probability)) fail("align", "the model's scores are not numbers");
  const auto places = stretches(h.weights, std::ssize(h.words));
  std::vector<Timed> all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    all.push_back({.token = model.codec().vocabulary.token(h.words[i]),
                   .begin = model.time(places[i].first),
                   .end = model.time(places[i].second),
                   .probability = std::exp(h.word_log_probabilities[i])});
  }
  // The last annotation may stand for more frames than there are.
  if (!all.empty()) all.back().end = seconds;
  return all;
}

nlohmann::ordered_json json_of(std::span<const Timed> tokens) {
  auto json = nlohmann::ordered_json::array();
  for (const Timed& one : tokens) {
    json.push_back({{"token", one.token},
                    {"begin", one.begin},
                    {"end", one.end},
                    {"probability", one.probability}});
  }
  return json;
}

std::vector<Timed> align(const Model& model, const Utterance& utterance) {
  const Tensor heard = model.hear(utterance.samples);
  const Batch batch{frames::make_batch(std::span(&heard, 1)), {utterance.tokens}};
  const double seconds =
      static_cast<double>(utterance.samples.size()) / static_cast<double>(model.rate());
  return timed(model, model.recogniser().force(batch).front(), seconds);
}

}  // namespace attune::speech
