// Many sentences of any lengths: sorted, cut into batches, and handed back in their order.
#pragma once

#include <functional>
#include <variant>

#include <attune/models/search.hpp>
#include <attune/models/text/batches.hpp>

namespace attune::models {

struct TranslateOptions {
  std::variant<SearchOptions, SamplingOptions> how = SearchOptions{};
  Index sentences = 64;      // most in a batch
  Index words = 8192;        // most in a batch, padding included; a longer sentence stands alone
  DType dtype = DType::f32;  // of the model's parameters
  Index first = 0;           // number of the first sentence, by which each is sampled
};

/// The hypotheses of one sentence, best first; one where it is sampled.
using Translation = std::vector<Hypothesis>;

namespace detail {

/// Translates a batch; `numbers` are those of its sentences.
using TranslateBatch = std::function<std::vector<Translation>(const text::SourceBatch& batch,
                                                              std::span<const Index> numbers)>;
std::vector<Translation> translate(std::span<const text::Sentence> sources, Index first_number,
                                   const TranslateOptions& options, const TranslateBatch& batch);

template <WordModel M>
TranslateBatch translate_batch(const M& model, const TranslateOptions& options) {
  return [&](const text::SourceBatch& batch, std::span<const Index> numbers) {
    const detail::Inference inference;
    const auto encoded = model.encode(batch.source, batch.mask);
    if (const auto* how = std::get_if<SearchOptions>(&options.how))
      return search(model, encoded, *how);
    std::vector<Translation> translations;
    for (Hypothesis& h : sample(model, encoded, std::get<SamplingOptions>(options.how), numbers))
      translations.push_back({std::move(h)});
    return translations;
  };
}

}  // namespace detail

/// The translations of sentences, in their order. A sentence without words has one hypothesis,
/// which is complete, without words, and has log-probability 0. The results are the same however
/// sentences are batched, but for rounding. Throws as `search` and `sample` do, and on limits below
/// 1.
template <WordModel M>
std::vector<Translation> translate(const M& model, std::span<const text::Sentence> sources,
                                   const TranslateOptions& options = {}) {
  return detail::translate(sources, options.first, options,
                           detail::translate_batch(model, options));
}

}  // namespace attune::models
