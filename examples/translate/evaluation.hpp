// How well a model translates. All of it throws Interrupted.
#pragma once

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/search.hpp>

#include "reference_text.hpp"

namespace attune::translate {

struct Evaluation {
  double loss = 0;  // per target word, </s> included
  double bleu = 0;
  std::vector<std::string> translations = {};  // of each source
  double perplexity() const;
};

/// One model, or several that write together.
using Models = std::span<const Model>;
inline Models alone(const Model& model) { return {&model, 1}; }

/// Loss of the references, each word given those before it.
double mean_loss(Models models, std::span<const text::Pair> pairs);

/// The best translation of each sentence, as lines.
struct Written {
  std::vector<std::string> lines;
  Index cut = 0;  // how many of them, at max_length
};
Written translations(Models models, std::span<const text::Sentence> sources,
                     const models::SearchOptions& search);

Evaluation evaluate(const Model& model, const ReferenceText& text,
                    const models::SearchOptions& search, const metrics::BleuOptions& bleu);

}  // namespace attune::translate
