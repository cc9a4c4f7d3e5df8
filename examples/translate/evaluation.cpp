#include "evaluation.hpp"

#include <cmath>

#include <attune/models/translate.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::translate {

double Evaluation::perplexity() const { return std::exp(loss); }

double mean_loss(const models::Seq2Seq& network, std::span<const text::Pair> pairs) {
  const NoGrad no_grad;
  double total = 0, words = 0;
  for (const auto& chosen :
       text::epoch_batches(pairs, {.sentences = 64}, /*seed=*/0, /*epoch=*/0)) {
    const text::Batch batch = text::make_batch(pairs, chosen);
    const double count = sum(batch.target_mask).item();
    total += network.loss(batch).item() * count;
    words += count;
  }
  return total / words;
}

std::vector<std::string> translations(const Model& model, std::span<const text::Sentence> sources,
                                      const models::SearchOptions& search) {
  std::vector<std::string> lines;
  for (const models::Translation& t :
       models::translate(model.network(), sources, {.how = search})) {
    lines.push_back(model.target().decode(t.front().words));
  }
  return lines;
}

Evaluation evaluate(const Model& model, const Validation& text, const models::SearchOptions& search,
                    const metrics::BleuOptions& bleu) {
  std::vector<text::Sentence> sources;
  for (const text::Pair& pair : text.pairs) sources.push_back(pair.source);
  std::vector<metrics::References> references;
  for (const std::string& line : text.references) references.push_back({line});
  const auto lines = translations(model, sources, search);
  return {mean_loss(model.network(), text.pairs),
          metrics::corpus_bleu(lines, references, bleu).bleu};
}

}  // namespace attune::translate
