// Beam search of a batch, compared with greedy search.

#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>

#include "support/counters.hpp"

namespace attune {
namespace {

/// 64 sentences of 20 words. An untrained model hardly ever predicts the end of a sentence, so each
/// search takes max_length + 1 steps.
void search_bench(benchmark::State& state) {
  constexpr Index batch = 64, source_words = 20, vocabulary = 10000;
  nn::Parameters params(1);
  const models::Bahdanau model(params,
                               {.source_vocabulary = vocabulary, .target_vocabulary = vocabulary});
  Random random(1);
  std::vector<text::Sentence> sources(batch, text::Sentence(source_words));
  for (auto& sentence : sources) {
    for (auto& word : sentence) word = static_cast<std::int32_t>(random.below(vocabulary));
  }
  const text::SourceBatch batch_of_words = text::make_source_batch(sources);
  const models::SearchOptions options{.beam = state.range(0), .max_length = 20};
  for (auto _ : state) benchmark::DoNotOptimize(models::search(model, batch_of_words, options));
  state.counters["sentences/s"] =
      benchmark::Counter(batch, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(search_bench)
    ->Name("search")
    ->ArgName("beam")
    ->Arg(1)
    ->Arg(5)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace attune
