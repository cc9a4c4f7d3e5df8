#include "evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <attune/models/metrics/accuracy.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::dates {
namespace {

/// Which field of the date the target's character belongs to: YYYY-MM-DD.
char field_of(Index character) {
  return character <= 3                     ? 'y'
         : character == 5 || character == 6 ? 'm'
         : character == 8 || character == 9 ? 'd'
                                            : 0;
}

/// The mean attention on the gold spans of rows that have any, where the model has attention.
std::optional<double> gold_attention(const Model& model, std::span<const Row> rows) {
  std::vector<Row> marked;
  std::ranges::copy_if(rows, std::back_inserter(marked),
                       [](const Row& row) { return !row.spans.empty(); });
  const std::vector<models::Hypothesis> forced = model.force(encoded(model, marked));
  double total = 0;
  Index count = 0;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    const Tensor& weights = forced[i].weights;  // (steps, S)
    if (!weights.defined()) return {};
    for (Index t = 0; t < std::min<Index>(10, weights.dim(0)); ++t) {
      for (const Span& span : marked[i].spans) {
        if (span.field != field_of(t)) continue;
        total += sum(weights[t].slice(span.begin, span.end)).item();
        ++count;
      }
    }
  }
  if (count == 0) return {};
  return total / static_cast<double>(count);
}

}  // namespace

std::vector<text::Pair> encoded(const Model& model, std::span<const Row> rows) {
  std::vector<text::Pair> pairs;
  for (const Row& row : rows) pairs.push_back(model.encode(row.source, row.target));
  return pairs;
}

Evaluation evaluate(const Model& model, std::span<const Row> rows, Index beam, bool attention) {
  std::vector<text::Sentence> sources;
  for (const Row& row : rows) sources.push_back(model.source().encode(row.source));
  const std::vector<models::Hypothesis> best = model.predict(sources, beam);
  Evaluation result;
  double exact = 0, characters = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string written = model.decode(best[i].words);
    const bool right = written == rows[i].target;
    exact += right;
    characters +=
        metrics::position_accuracy(text::code_points(written), text::code_points(rows[i].target));
    result.predictions.push_back({written, std::exp(best[i].log_probability), right});
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  result.exact_match = exact / n;
  result.character_accuracy = characters / n;
  if (attention) result.gold_attention = gold_attention(model, rows);
  return result;
}

}  // namespace attune::dates
