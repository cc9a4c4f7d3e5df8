// Any score and window: a model of Luong et al. (2015) with options of one's own, and the
// log-probabilities that it gives to pairs.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// Digits, and the same digits in reverse.
std::vector<text::Pair> reversals(Random& random, int count) {
  std::vector<text::Pair> pairs(static_cast<std::size_t>(count));
  for (auto& [source, target] : pairs) {
    for (Index n = 3 + random.below(6); n > 0; --n) source.push_back(4 + random.below(10));
    target.assign(source.rbegin(), source.rend());
  }
  return pairs;
}

int main() {
  const text::Vocabulary digits(
      std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  nn::Parameters params(/*seed=*/1);
  const models::LuongOptions options = {
      .source_vocabulary = digits.size(),
      .target_vocabulary = digits.size(),
      .embedding = 16,
      .hidden = 32,
      .encoder_layers = 1,
      .decoder_layers = 1,
      .cell = nn::Cell::lstm,
      .score = {.kind = "cosine"},
      .attention = {.window = nn::Window::local_predictive, .half_width = 5}};
  const models::Luong model(params, options);

  nn::Adam adam(params, {.rate = 1e-2});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 300; ++step) {
    const Var loss = models::loss(model, text::make_batch(reversals(random, 32)));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }

  double right = 0;
  for (const auto& forced : models::force_decode(model, text::make_batch(reversals(random, 20)))) {
    std::cout << "log-probability " << forced.log_probability << " of";
    for (auto word : forced.words) std::cout << " " << digits.token(word);
    std::cout << "\n";
    right += forced.log_probability > -0.7;  // more likely than not
  }
  return right >= 15 ? 0 : 1;
}
