#include <iostream>

#include <attune/attune.hpp>
using namespace attune;

int main() {  // learns to reverse six digits, and prints where the decoder attends
  nn::Parameters params(/*seed=*/1);
  const models::Bahdanau model(params, {.source_vocabulary = 14, .target_vocabulary = 14});
  nn::Adam adam(params, {.rate = 1e-3});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 100; ++step) {
    std::vector<text::Pair> pairs(32, {text::Sentence(6), {}});
    for (auto& [source, target] : pairs) {  // ids 0 to 3 are <pad>, <s>, </s> and <unk>
      for (auto& digit : source) digit = static_cast<int>(4 + random.below(10));
      target.assign(source.rbegin(), source.rend());
    }
    const Var loss = models::loss(model, text::make_batch(pairs));
    adam.step(backward(loss));
    if (step % 20 == 0) std::cout << "step " << step << "  loss " << loss.item() << std::endl;
  }
  const models::Hypothesis best = models::translate(model, {{{6, 11, 5, 12, 6, 12}}})[0][0];
  std::cout << best.weights << "\n";  // (7, 6): a row for each output digit, and for </s>
}
