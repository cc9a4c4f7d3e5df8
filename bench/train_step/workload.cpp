#include "train_step/workload.hpp"

#include <attune/tensor/arrange.hpp>

namespace attune::bench {
namespace {

Tensor random_words(Index steps, const Sizes& sizes, Random& random) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(steps * sizes.B));
  for (auto& id : ids) id = static_cast<std::int32_t>(random.below(sizes.V));
  return Tensor::of(Shape{steps, sizes.B}, std::span<const std::int32_t>(ids));
}

/// (steps, B). The first sentence has the full length, so that every batch has `steps` steps.
Tensor random_mask(Index steps, const Sizes& sizes, bool varied, Random& random) {
  std::vector<Index> words(static_cast<std::size_t>(sizes.B), steps);
  if (varied) {
    for (Index& n : std::span(words).subspan(1)) n = steps - random.below(steps - steps / 2 + 1);
  }
  return mask_of(words);
}

double bahdanau_flops(const Sizes& sizes) {
  const auto [E, H, A, V, S, T, B, L] = sizes;
  const Index encoder = 2 * 3 * H * (E + H);  // two directions, three gates
  const Index keys = 2 * H * A, bridge = H * H;
  const Index decoder = 3 * H * (E + H + 2 * H);     // inputs: word, state, context
  const Index attention = H * A + S * (A + 2 * H);   // query; scores and weighted sum
  const Index output = (3 * H + E) * 2 * E + E * V;  // readout, logits
  return 2.0 * static_cast<double>(B * (S * (encoder + keys) + bridge) +
                                   T * B * (decoder + attention + output));
}

double luong_flops(const Sizes& sizes) {
  const auto [E, H, A, V, S, T, B, L] = sizes;
  const Index upper = (L - 1) * 2 * H;  // inputs of the layers above the lowest
  const Index encoder = 4 * H * (E + H + upper);
  const Index keys = H * H;
  const Index decoder = 4 * H * (E + H + H + upper);  // inputs: word, fed vector, state
  const Index attention = S * 2 * H;                  // scores and weighted sum
  const Index output = 2 * H * H + H * V;             // attentional vector, logits
  return 2.0 *
         static_cast<double>(B * S * (encoder + keys) + T * B * (decoder + attention + output));
}

/// Counts attention to all positions, also those that the causal mask excludes.
double transformer_flops(const Sizes& sizes, bool source) {
  const auto [E, H, A, V, S, T, B, L] = sizes;
  const Index layer = 4 * E * E + 2 * E * H;  // projections of attention, feed-forward block
  const Index encoder = L * (layer + 2 * S * E);
  const Index decoder = L * (layer + 2 * T * E) + E * V;
  const Index cross = L * (2 * E * E + 2 * S * E), keys = L * 2 * E * E;
  return 2.0 *
         static_cast<double>(B * (T * decoder + (source ? S * (encoder + keys) + T * cross : 0)));
}

}  // namespace

const std::map<std::string, Sizes>& configurations() {
  static const std::map<std::string, Sizes> all = {
      {"toy", {.E = 64, .H = 128, .A = 128, .V = 32, .S = 30, .T = 10, .B = 64, .L = 1}},
      {"small", {.E = 256, .H = 256, .A = 256, .V = 32, .S = 30, .T = 10, .B = 64, .L = 1}},
      {"medium", {.E = 256, .H = 512, .A = 512, .V = 10000, .S = 20, .T = 20, .B = 64, .L = 2}},
      {"large", {.E = 512, .H = 1000, .A = 1000, .V = 30000, .S = 30, .T = 30, .B = 80, .L = 2}},
      {"tiny", {.E = 128, .H = 256, .A = 4, .V = 10000, .S = 20, .T = 20, .B = 64, .L = 4}},
      {"base", {.E = 512, .H = 2048, .A = 8, .V = 10000, .S = 30, .T = 30, .B = 32, .L = 6}},
      {"nanogpt", {.E = 128, .H = 512, .A = 4, .V = 65, .S = 1, .T = 64, .B = 12, .L = 4}},
      {"gpt2", {.E = 768, .H = 3072, .A = 12, .V = 50257, .S = 1, .T = 64, .B = 4, .L = 12}},
      // As many operations as medium, on tiny tensors: measures the overhead.
      {"overhead", {.E = 8, .H = 8, .A = 8, .V = 16, .S = 4, .T = 20, .B = 1, .L = 2}},
  };
  return all;
}

text::Batch random_batch(const Sizes& sizes, bool varied, Random& random) {
  return {.source = random_words(sizes.S, sizes, random),
          .source_mask = random_mask(sizes.S, sizes, varied, random),
          .previous = random_words(sizes.T, sizes, random),
          .next = random_words(sizes.T, sizes, random),
          .target_mask = random_mask(sizes.T, sizes, varied, random)};
}

double forward_flops(const std::string& model, const Sizes& sizes) {
  if (model == "transformer" || model == "lm") return transformer_flops(sizes, model != "lm");
  return model == "luong" ? luong_flops(sizes) : bahdanau_flops(sizes);
}

}  // namespace attune::bench
