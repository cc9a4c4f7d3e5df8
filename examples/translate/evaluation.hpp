// How well a model translates. All of it throws Interrupted.
#pragma once

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/search.hpp>

#include "reference_text.hpp"

namespace attune::translate {

struct Evaluation {
  double loss = 0;  // per target word, </s> included
  double bleu = 0;
  double perplexity() const;
};

/// Loss of the references, each word given those before it.
double mean_loss(const models::Seq2Seq& network, std::span<const text::Pair> pairs);

/// The best translation of each sentence, as lines.
std::vector<std::string> translations(const Model& model, std::span<const text::Sentence> sources,
                                      const models::SearchOptions& search);

/// What BLEU counts in the best translation of each sentence.
std::vector<metrics::BleuStatistics> translation_statistics(const Model& model,
                                                            const ReferenceText& text,
                                                            const models::SearchOptions& search,
                                                            const metrics::BleuOptions& bleu);

Evaluation evaluate(const Model& model, const ReferenceText& text,
                    const models::SearchOptions& search, const metrics::BleuOptions& bleu);

}  // namespace attune::translate
