// Models in several threads of one process give the same results as alone, bit for bit.

#include <thread>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/by_name.hpp>
#include <attune/models/search.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/threads.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::NamedModel;

constexpr Index kVocabulary = 40;
const models::Vocabularies kSizes{kVocabulary, kVocabulary};

/// Large enough for several tiles per operation.
models::ModelOptions sized(const char* paper) {
  return test::options_from(paper, "embedding=24 hidden=40 attention=32 readout=24 dropout=0.2");
}

/// Results of a model trained for a few steps: losses, weights and translations.
struct Outcome {
  std::vector<double> losses;
  std::vector<Tensor> weights;
  std::vector<std::vector<models::Hypothesis>> found;

  bool operator==(const Outcome& other) const {
    const auto same_lists = [](const auto& a, const auto& b) {
      return std::ranges::equal(a, b, test::same);
    };
    return losses == other.losses && std::ranges::equal(weights, other.weights, identical) &&
           std::ranges::equal(found, other.found, same_lists);
  }
};

const std::vector<Index> kLengths = {9, 3, 12, 7, 5, 11, 8, 2, 10, 6, 4, 12, 9, 7, 3, 8, 6, 10};

auto decode(const NamedModel& model, Index beam) {
  const auto [source, mask] =
      text::make_source_batch(test::random_sentences(kLengths, kVocabulary, 5));
  return models::search(model, model.encode(source, mask),
                        {.beam = beam, .max_length = 12, .best = beam});
}

Outcome train(const char* paper, std::uint64_t seed, Precision precision) {
  const InPrecision products(precision);
  nn::Parameters params(seed);
  const NamedModel model(params, sized(paper), kSizes);
  nn::Adam adam(params, {.rate = 1e-2});
  Random random(seed);
  Outcome outcome;
  for (int step = 0; step < 8; ++step) {
    std::vector<text::Pair> pairs;
    for (const auto& words : test::random_sentences(kLengths, kVocabulary, random.bits()))
      pairs.push_back({words, {words.rbegin(), words.rend()}});
    const nn::Training training(random);
    const Var loss = models::loss(model, text::make_batch(pairs));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    outcome.losses.push_back(loss.item());
  }
  for (const auto& [name, w] : params) outcome.weights.push_back(w.value());
  outcome.found = decode(model, 3);
  return outcome;
}

/// Calls f(0) to f(n - 1), each in its own thread.
void in_threads(std::size_t n, const std::function<void(std::size_t)>& f) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("concurrency: models in two threads train and decode as alone") {
  const Precision other = fastest_precision(Precision::bf16);
  const auto run = [&](std::size_t i) {
    return i == 0 ? train("bahdanau", 1, Precision::f32) : train("luong", 2, other);
  };
  const Outcome alone[] = {run(0), run(1)};
  CHECK(alone[0].losses.back() < alone[0].losses.front());
  Outcome together[2];
  in_threads(2, [&](std::size_t i) { together[i] = run(i); });
  CHECK(together[0] == alone[0]);
  CHECK(together[1] == alone[1]);
}

TEST_CASE("concurrency: one model decodes in eight threads as in one") {
  for (const char* paper : {"bahdanau", "luong"}) {
    nn::Parameters params(1), same_params(1);
    const NamedModel model(params, sized(paper), kSizes),
        same_model(same_params, sized(paper), kSizes);
    const Index beams[] = {1, 4};
    const decltype(decode(model, 1)) alone[] = {decode(same_model, 1), decode(same_model, 4)};
    // The weights are not packed yet, so the threads also compete to pack them.
    std::vector<char> right(8);
    in_threads(8, [&](std::size_t i) {
      const auto found = decode(model, beams[i % 2]);
      right[i] = Outcome{{}, {}, found} == Outcome{{}, {}, alone[i % 2]};
    });
    CHECK(right == std::vector<char>(8, 1));
  }
}

}  // namespace
