#include "metrics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <attune/models/forced.hpp>
#include <attune/models/metrics/accuracy.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/signals.hpp"

namespace attune::dates {
namespace {

constexpr std::size_t batch_size = 100;

/// Rows by length of their source, so that a batch has little padding.
std::vector<std::size_t> by_length(std::span<const Row> rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rows[i].source.size(); });
  return order;
}

/// Which field of the date the target's character belongs to: YYYY-MM-DD.
char field_of(Index character) {
  return character <= 3                     ? 'y'
         : character == 5 || character == 6 ? 'm'
         : character == 8 || character == 9 ? 'd'
                                            : 0;
}

/// Sum and number of the attention masses on gold spans.
struct Mass {
  double total = 0;
  Index count = 0;
};

/// Of a forced target.
void add_gold_attention(const models::Hypothesis& forced, const Row& row, Mass& mass) {
  const Tensor& weights = forced.weights;  // (steps, S)
  if (!weights.defined()) return;
  for (Index t = 0; t < std::min<Index>(10, weights.dim(0)); ++t) {
    for (const Span& span : row.spans) {
      if (span.field != field_of(t)) continue;
      mass.total += sum(weights[t].slice(span.begin, span.end)).item();
      ++mass.count;
    }
  }
}

}  // namespace

Evaluation evaluate(const Model& model, std::span<const Row> rows, Index beam, bool attention) {
  Evaluation result;
  result.predictions.resize(rows.size());
  const std::vector<std::size_t> order = by_length(rows);
  Mass mass;
  double exact = 0, characters = 0;
  for (std::size_t begin = 0; begin < rows.size(); begin += batch_size) {
    stop_if_interrupted();
    std::vector<text::Sentence> sources;
    std::vector<text::Pair> forced;
    std::vector<const Row*> forced_rows;
    const std::size_t end = std::min(rows.size(), begin + batch_size);
    for (std::size_t i = begin; i < end; ++i) {
      const Row& row = rows[order[i]];
      sources.push_back(model.source().encode(row.source));
      if (attention && !row.spans.empty()) {
        forced.push_back(model.encode(row.source, row.target));
        forced_rows.push_back(&row);
      }
    }
    const std::vector<models::Hypothesis> best = model.predict(sources, beam);
    for (std::size_t i = begin; i < end; ++i) {
      const Row& row = rows[order[i]];
      const models::Hypothesis& h = best[i - begin];
      Prediction& p = result.predictions[order[i]];
      p = {model.decode(h.words), std::exp(h.log_probability), false};
      p.exact = p.written == row.target;
      exact += p.exact;
      characters +=
          metrics::position_accuracy(text::code_points(p.written), text::code_points(row.target));
    }
    if (forced.empty()) continue;
    const auto hypotheses = models::force_decode(model.network(), text::make_batch(forced));
    for (std::size_t i = 0; i < forced.size(); ++i)
      add_gold_attention(hypotheses[i], *forced_rows[i], mass);
  }
  const auto n = static_cast<double>(std::max<std::size_t>(1, rows.size()));
  result.exact_match = exact / n;
  result.character_accuracy = characters / n;
  if (mass.count > 0) result.gold_attention = mass.total / static_cast<double>(mass.count);
  return result;
}

}  // namespace attune::dates
