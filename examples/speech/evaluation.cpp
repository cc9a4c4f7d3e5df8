#include "evaluation.hpp"

#include <algorithm>
#include <numeric>

#include <attune/models/frames/batches.hpp>

#include "support/signals.hpp"

namespace attune::speech {

std::vector<models::Hypothesis> recognise(const Model& model,
                                          std::span<const std::vector<float>> waveforms,
                                          const HearOptions& options) {
  constexpr std::size_t most = 32;                                    // utterances of a batch,
  const auto samples = static_cast<std::size_t>(300 * model.rate());  // and with padding: 5 minutes
  std::vector<std::size_t> order(waveforms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return waveforms[i].size(); });
  std::vector<models::Hypothesis> all(waveforms.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    stop_if_interrupted();
    for (end = begin + 1; end < order.size() && end < begin + most; ++end) {
      if ((end + 1 - begin) * waveforms[order[end]].size() > samples) break;
    }
    std::vector<Tensor> heard;
    for (std::size_t i = begin; i < end; ++i) heard.push_back(model.hear(waveforms[order[i]]));
    const nn::Sequence frames = frames::make_batch(heard);
    auto found = model.recogniser().recognise(
        frames, {.beam = options.beam, .max_length = frames.x.dim(0), .within_source = true},
        options.ctc);
    for (std::size_t i = begin; i < end; ++i) all[order[i]] = std::move(found[i - begin]);
  }
  return all;
}

CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options) {
  std::vector<std::vector<float>> waveforms;
  for (const Utterance& one : utterances) waveforms.push_back(one.samples);
  const std::vector<models::Hypothesis> found = recognise(model, waveforms, options);
  CountsByLength counts;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const text::Sentence expected = comparable(utterances[i].tokens);
    const metrics::Edits edits = metrics::edits(found[i].words, expected);
    counts[expected.size()] += {edits, 1, edits.count() == 0};
  }
  return counts;
}

}  // namespace attune::speech
