#include "evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "support/ensembles.hpp"

namespace attune::transduce {
std::vector<models::Translation> write(Models models, std::span<const text::Sentence> sources,
                                       const WriteOptions& options) {
  const models::SearchOptions search = {.beam = std::max(options.beam, options.best),
                                        .max_length = models.front().most_tokens(),
                                        .best = options.best};
  return with_network(models, [&](const auto& network) {
    return models::translate(network, sources, {.how = search});
  });
}

Evaluation evaluate(Models models, std::span<const Row> rows, Index beam) {
  const Codecs& codecs = models.front().codecs();
  std::vector<text::Sentence> sources;
  for (const Row& row : rows) sources.push_back(codecs.source.encode(row.source));
  const std::vector<models::Translation> written = write(models, sources, {.beam = beam});
  Evaluation result;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const models::Hypothesis& h = written[i].front();
    const text::Sentence expected = comparable(codecs.target.encode(rows[i].target));
    const metrics::Edits edits = metrics::edits(h.words, expected);
    const bool right = edits.count() == 0;
    result.counts[expected.size()] += {edits, 1, right};
    result.written.push_back({codecs.target.decode(h.words), std::exp(h.log_probability), right});
    if (right) continue;
    for (const metrics::TokenPair& pair : metrics::side_by_side(h.words, expected)) {
      if (pair.written != pair.expected) ++result.confusions[pair];
    }
  }
  return result;
}

std::vector<std::vector<std::string>> most_frequent(const Confusions& confusions,
                                                    const text::Vocabulary& target,
                                                    std::size_t most) {
  std::vector<std::pair<metrics::TokenPair, Index>> order(confusions.begin(), confusions.end());
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const auto& one) { return one.second; });
  order.resize(std::min(most, order.size()));
  const auto name = [&](std::int32_t token) -> std::string {
    if (token == metrics::TokenPair::no_token) return "∅";
    if (token == unwritable) return "(not in the vocabulary)";
    return target.token(token) == " " ? "␣" : target.token(token);
  };
  std::vector<std::vector<std::string>> rows;
  for (const auto& [pair, count] : order)
    rows.push_back({name(pair.expected), name(pair.written), std::to_string(count)});
  return rows;
}

}  // namespace attune::transduce
