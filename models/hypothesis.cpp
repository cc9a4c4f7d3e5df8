#include <fmt/format.h>

#include <attune/models/hypothesis.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

std::vector<std::string> replace_unknown(const Hypothesis& h, std::span<const std::string> source,
                                         const text::Vocabulary& target, const Lexicon& lexicon) {
  std::vector<std::int32_t> places;  // the largest weight of each step
  if (h.weights.defined()) {
    if (h.weights.dim(1) != std::ssize(source)) {
      fail("replace_unknown", fmt::format("{} source tokens, but weights {}", source.size(),
                                          to_string(h.weights.shape())));
    }
    places = argmax(h.weights).to_vector<std::int32_t>();
  }
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < h.words.size(); ++i) {
    if (h.words[i] != text::Vocabulary::unknown) {
      tokens.push_back(target.token(h.words[i]));
      continue;
    }
    if (places.empty()) fail("replace_unknown", "the hypothesis has no attention weights");
    const std::string& token = source[places[i]];
    const auto known = lexicon.find(token);
    tokens.push_back(known == lexicon.end() ? token : known->second);
  }
  return tokens;
}

}  // namespace attune::models
