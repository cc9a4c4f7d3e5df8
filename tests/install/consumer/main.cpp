// A program that uses attune. It trains a small model, and uses exceptions and RTTI across the
// boundary of the shared library. Prints the version of the library and returns 0.
#include <cstdlib>
#include <iostream>
#include <string>

#include <attune/attune.hpp>

namespace {

using namespace attune;

void expect(bool held, const char* what) {
  if (held) return;
  std::cerr << "failed: " << what << "\n";
  std::exit(1);
}

/// The loss of each step of a model that learns to reverse digits.
std::vector<double> losses_of_training() {
  const Index vocabulary = 4 + 10;
  nn::Parameters params(/*seed=*/1);
  const models::Bahdanau model(params, {.source_vocabulary = vocabulary,
                                        .target_vocabulary = vocabulary,
                                        .embedding = 8,
                                        .hidden = 16,
                                        .readout = 16,
                                        .score = {.attention = 16}});
  nn::Adam adam(params, {.rate = 1e-2});
  Random random(/*seed=*/1);
  std::vector<double> losses;
  for (int step = 0; step < 100; ++step) {
    std::vector<text::Pair> pairs(16);
    for (auto& [source, target] : pairs) {
      for (int n = 0; n < 3; ++n) source.push_back(static_cast<std::int32_t>(4 + random.below(10)));
      target.assign(source.rbegin(), source.rend());
    }
    const nn::Training training(random);
    const Var loss = models::loss(model, text::make_batch(pairs));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    losses.push_back(loss.item());
  }
  return losses;
}

bool error_is_caught() {
  try {
    matmul(zeros({2, 3}), zeros({2, 3}));
  } catch (const Error& error) {
    return std::string(error.what()).find("(2, 3)") != std::string::npos;
  }
  return false;
}

bool score_has_its_type() {
  nn::Parameters params;
  const auto score = nn::make_score(params, 2, 3, {.kind = "additive", .attention = 4});
  return dynamic_cast<const nn::AdditiveScore*>(score.get()) != nullptr &&
         dynamic_cast<const nn::CoverageScore*>(score.get()) == nullptr;
}

}  // namespace

int main() {
  expect(std::string(version()) == ATTUNE_VERSION, "headers and library have the same version");
  expect(error_is_caught(), "an exception of the library is caught by its type");
  expect(score_has_its_type(), "dynamic_cast works with a class of the library");
  const std::vector<double> losses = losses_of_training();
  expect(losses.back() < losses.front() / 2, "training halves the loss");
  std::cout << version() << "\n";
}
