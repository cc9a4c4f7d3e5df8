// Connectionist temporal classification (Graves et al., 2006): predicts the notes of noisy melodies
// (one value per frame) without a decoder.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

constexpr Index notes = 5, longest = 40;  // symbols 1 to 5; 0 is the blank

struct Melodies {
  Tensor levels = zeros({longest, 32, 1}), mask = zeros({longest, 32});
  std::vector<text::Sentence> written = std::vector<text::Sentence>(32);
};

/// 3 to 6 notes, each of 4 to 6 frames.
Melodies draw(Random& random) {
  Melodies m;
  for (Index b = 0; b < 32; ++b) {
    Index t = 0;
    for (Index n = 3 + random.below(4); n > 0; --n) {
      m.written[b].push_back(1 + random.below(notes));
      for (const Index end = t + 4 + random.below(3); t < end; ++t) {
        m.levels.mutable_at<float>({t, b, 0}) = m.written[b].back() + 0.2 * random.normal();
        m.mask.mutable_at<float>({t, b}) = 1;
      }
    }
  }
  return m;
}

int main() {
  nn::Parameters params(/*seed=*/1);
  const nn::Bidirectional<nn::Lstm> lstm(params / "lstm", 1, 24);
  const nn::Linear output(params / "output", lstm.size(), 1 + notes);
  const auto logits = [&](const Melodies& m) { return output(lstm(m.levels, {.mask = m.mask}).h); };
  nn::Adam adam(params, {.rate = 1e-2});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 300; ++step) {
    const Melodies m = draw(random);
    const auto [labels, labels_mask] = text::make_source_batch(m.written);  // (U, B), no </s>
    const Var loss = ctc_loss(logits(m), m.mask, labels, labels_mask);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
  const Melodies heard = draw(random);
  const auto found = models::ctc_search(logits(heard).value(), heard.mask);
  int right = 0;
  for (Index b = 0; b < 32; ++b) right += found[b][0].labels == heard.written[b];
  std::cout << right << " of 32 melodies right\n";
  return right >= 28 ? 0 : 1;
}
