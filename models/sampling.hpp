// Sentences drawn from what a model thinks of them.
#pragma once

#include <attune/models/decoding.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/tensor/random.hpp>

namespace attune::models {

/// Each word is drawn from p_v ∝ exp(x_v / temperature), x being the logits. Only the likeliest
/// words can be drawn: at most `top_k` (Fan et al., 2018), and no more than are needed to reach the
/// probability `top_p` together (nucleus sampling, Holtzman et al., 2020). Of words with equal
/// probabilities the smaller one counts as likelier.
struct SamplingOptions {
  double temperature = 1;  // below 1 the likely words become likelier
  Index top_k = 0;         // 0: all words
  double top_p = 1;
  Index max_length = 100;  // most words; one more step may then write `</s>`
  std::uint64_t seed = 1;
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;  // `<s>`, `</s>`
};

namespace detail {

class Sampler : public Decoding {
 public:
  Sampler(const Tensor& source_mask, const SamplingOptions& options,
          std::span<const Index> numbers);

  std::vector<Hypothesis> results() const;

 private:
  std::vector<Candidate> choose(const Scores& scores) override;

  SamplingOptions options_;
  std::vector<Random> random_;  // one for each sentence
};

}  // namespace detail

/// One sentence drawn for each that the decoder starts from, see search(). Log-probabilities are
/// the model's own, at temperature 1 and with nothing cut off; they are the scores, too.
///
/// What is drawn depends on the seed and on the sentence's number, not on the batch: `numbers` has
/// them, and without any they are 0 to B - 1. Throws on a source without words and on scores that
/// are NaN.
template <Decoder M, Source Encoded>
std::vector<Hypothesis> sample(const M& model, const Encoded& encoded,
                               const SamplingOptions& options = {},
                               std::span<const Index> numbers = {}) {
  detail::Sampler sampler(encoded.mask, options, numbers);
  detail::decode(model, encoded, sampler);
  return sampler.results();
}

}  // namespace attune::models
