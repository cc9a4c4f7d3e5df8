#include <attune/autograd/ops.hpp>
#include <attune/models/guided_alignment.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

text::Alignment token_links(const text::Alignment& words, std::span<const int> source,
                            std::span<const int> target) {
  text::Alignment links;
  for (const text::Link& link : words) {
    for (std::size_t s = 0; s < source.size(); ++s) {
      for (std::size_t t = 0; t < target.size() && source[s] == link.source; ++t) {
        if (target[t] == link.target) links.push_back({static_cast<int>(s), static_cast<int>(t)});
      }
    }
  }
  return links;
}

Tensor alignment_guide(std::span<const text::Alignment> links, const text::Batch& batch) {
  const Index T = batch.next.dim(0), S = batch.source.dim(0), B = batch.sentences();
  if (std::ssize(links) != B)
    fail("alignment_guide", "{} alignments, but {} sentences", links.size(), B);
  // The target mask includes </s>, which has no links.
  const std::vector<double> source_words = sum(batch.source_mask, {0}).to_vector<double>(),
                            target_words = (sum(batch.target_mask, {0}) - 1.0).to_vector<double>();
  std::vector<double> linked(T * S * B, 0);
  for (Index b = 0; b < B; ++b) {
    const auto sentence = static_cast<std::size_t>(b);
    for (const auto& [s, t] : links[sentence]) {
      if (s < 0 || t < 0 || s >= source_words[sentence] || t >= target_words[sentence])
        fail("alignment_guide", "sentence {} has {} and {} tokens, but a link ({}, {})", b,
             source_words[sentence], target_words[sentence], s, t);
      linked[(t * S + s) * B + b] = 1;
    }
  }
  const Tensor guide = Tensor::of<double>({T, S, B}, linked);
  return guide / maximum(sum(guide, {1}, KeepAxes::yes), 1);
}

Var guided_alignment_loss(const Var& weights, const Tensor& guide) {
  ShapeCheck check("guided_alignment_loss");
  check("weights", weights, "T S B")("guide", guide, "T S B");
  const double linked = sum(guide).item();
  if (linked == 0) return zeros({}, weights.dtype());
  return sum(log(weights + 1e-10) * (guide.to(weights.dtype()) * (-1 / linked)));
}

}  // namespace attune::models
