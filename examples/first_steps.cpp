// First steps: a model that learns to reverse digits, and shows where it looked.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

int main() {
  const text::Vocabulary digits(
      std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  nn::Parameters params(/*seed=*/1);
  models::Bahdanau model(params, {.source_vocabulary = digits.size(),
                                  .target_vocabulary = digits.size(),
                                  .embedding = 16,
                                  .hidden = 32,
                                  .attention = 32,
                                  .readout = 32});
  nn::Adam adam(params, {.rate = 5e-3});
  Random random(/*seed=*/1);

  for (int step = 1; step <= 400; ++step) {
    std::vector<text::Pair> pairs(32);
    for (auto& [source, target] : pairs) {
      for (Index n = 3 + random.below(6); n > 0; --n) source.push_back(4 + random.below(10));
      target.assign(source.rbegin(), source.rend());
    }
    const nn::Training training(random);  // dropout is active in this block
    const Var loss = models::loss(model, text::make_batch(pairs));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }

  const std::vector<std::string> source{"3", "1", "4", "1", "5"};
  const text::Sentence sentence = digits.encode(source);
  const models::Hypothesis best =
      models::search(model, text::make_source_batch(std::span(&sentence, 1)))[0][0];
  report::Heatmap map{.rows = {}, .columns = source, .weights = {}, .caption = ""};
  for (auto word : best.words) map.rows.push_back(digits.token(word));
  map.weights = best.weights.slice(0, std::ssize(map.rows)).to_vector<double>();
  std::cout << report::terminal(map, {.colour = false});
  return map.rows == std::vector<std::string>(source.rbegin(), source.rend()) ? 0 : 1;
}
