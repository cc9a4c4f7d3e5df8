// Without gradients, results of a sentence are equal bit for bit alone and in any batch.
#include <doctest/doctest.h>

#include <attune/models/by_name.hpp>
#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"
#include "support/threads_scope.hpp"

namespace {

using namespace attune;
using namespace test;

constexpr Index kWords = 40;

/// Lengths around the tile sizes of the kernels; the first is the shortest.
const std::vector<Index> kLengths = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 65, 70};

std::vector<text::Pair> pairs() {
  auto backwards = kLengths;
  std::ranges::reverse(backwards);
  const auto sources = random_sentences(kLengths, kWords, 1, 4),
             targets = random_sentences(backwards, kWords, 2, 4);
  std::vector<text::Pair> all;
  for (std::size_t i = 0; i < sources.size(); ++i) all.push_back({sources[i], targets[i]});
  return all;
}

/// All hypotheses of sentences in batches of `size`; forced ones with or without weights.
std::vector<Hypothesis> hypotheses(const models::NamedModel& model, std::size_t size,
                                   bool weights) {
  const std::vector<text::Pair> all = pairs();
  std::vector<Hypothesis> forced, found;
  for (std::size_t begin = 0; begin < all.size(); begin += size) {
    const auto some = std::span(all).subspan(begin, std::min(size, all.size() - begin));
    const text::Batch batch = text::make_batch(some);
    for (auto& h : models::force_decode(model, batch, {.weights = weights})) forced.push_back(h);
    const text::SourceBatch source{batch.source, batch.source_mask};
    for (const auto& best : models::search(model, source, {.beam = 3, .max_length = 6, .best = 2}))
      found.insert(found.end(), best.begin(), best.end());
  }
  forced.insert(forced.end(), found.begin(), found.end());
  return forced;
}

TEST_CASE("batches: no model's hypotheses depend on the other sentences, padding and threads") {
  for (const std::string text :
       {"bahdanau", "bahdanau window=local-p half-width=3", "nematus encoder-layers=2",
        "luong score=general", "luong score=dot input-feeding=no", "luong score=multi-head heads=2",
        "luong score=location-aware normalizer=sparsemax", "encoder-decoder", "sutskever layers=2",
        "transformer attention-heads=2", "transformer attention-heads=2 norm=after tied=none",
        "transformer hidden=48 attention-heads=4 inner=100"}) {
    CAPTURE(text);
    nn::Parameters params(3);
    const models::NamedModel model(
        params, options_from(text, "embedding=16 hidden=16 attention=8 readout=16 inner=24"),
        {.source = kWords, .target = kWords});
    scale_parameters(params, 2);
    for (const bool weights : {false, true}) {
      CAPTURE(weights);
      const auto alone = hypotheses(model, 1, weights);
      for (const std::size_t size : {2, 3, 5, 14}) {
        CAPTURE(size);
        const ThreadsScope threads(size % 2 == 0 ? 2 : 1);
        CHECK(std::ranges::equal(hypotheses(model, size, weights), alone, same));
      }
    }
  }
}

}  // namespace
