// Times single parts of models: an LSTM layer, attention, cross-entropy, Adam, clipping, and a
// training step of a speech model. The programs of bench/peers compute the same.

#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/loss.hpp>
#include <attune/models/papers.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/threads.hpp>

#include "support/program.hpp"
#include "support/timed.hpp"

namespace attune::bench {
namespace {

using Results = std::vector<Tensor>;

struct Part {
  std::map<std::string, Index> sizes;
  std::function<Results()> step;
  double gflop = 0;  // of matrix products
};

Tensor mixed(const Shape& shape, std::uint32_t seed, float scale = 1) {
  Tensor x = Tensor::uninitialized(shape, DType::f32);
  fill_mixed(x.mutable_data<float>(), static_cast<std::uint32_t>(x.size()), seed, scale);
  return x;
}

/// y, followed by the gradients of these variables.
Results differentiate(const Var& y, const Tensor& dy, std::initializer_list<Var> variables) {
  const Gradients gradients = backward(y, dy);
  Results results = {y.value()};
  for (const Var& x : variables) results.push_back(gradients[x]);
  return results;
}

/// Marks a weight as changed, as an optimiser does. Its packed copy is then computed again.
void modify(const Var& w) {
  Tensor values = w.value();
  values.mutable_data<float>();
}

/// An LSTM layer, with the gradients of the input, both weights, the bias and the initial state.
Part lstm() {
  constexpr Index T = 20, B = 64, H = 512;
  nn::Parameters parameters(Safetensors{.tensors = {{"W_x", mixed({H, 4 * H}, 1, 0.04f)},
                                                    {"W_h", mixed({H, 4 * H}, 2, 0.04f)},
                                                    {"b", mixed({4 * H}, 3, 0.1f)}},
                                        .metadata = {}});
  const nn::Lstm layer(parameters, H, H);
  const Var W_x = parameters["W_x"], W_h = parameters["W_h"], b = parameters["b"];
  const Var x = variable(mixed({T, B, H}, 4)), h0 = variable(mixed({B, H}, 5)),
            c0 = variable(mixed({B, H}, 6));
  const Tensor dh = mixed({T, B, H}, 7);
  return {.sizes = {{"T", T}, {"B", B}, {"H", H}},
          .step =
              [=] {
                modify(W_x), modify(W_h);
                const Var h = layer(x, {.initial = {h0, c0}}).h;
                return differentiate(h, dh, {x, W_x, W_h, b, h0, c0});
              },
          .gflop = 3 * 2e-9 * T * B * 4 * H * 2 * H};
}

/// Attention of one decoder step, with the gradients of query, keys, values and v.
Part additive_attention() {
  constexpr Index S = 30, B = 64, A = 512, D = 1024;
  const Var q = variable(mixed({B, A}, 1)), keys = variable(mixed({S, B, A}, 2)),
            values = variable(mixed({S, B, D}, 3)), v = variable(mixed({A}, 4));
  const Tensor mask = ones({S, B}), dc = mixed({B, D}, 5);
  return {.sizes = {{"S", S}, {"B", B}, {"A", A}, {"values", D}}, .step = [=] {
            const Var weights = softmax(additive_scores(q, keys, v), 0, mask);
            return differentiate(weighted_sum(weights, values), dc, {q, keys, values, v});
          }};
}

Part mean_cross_entropy() {
  constexpr Index rows = 1280, classes = 10'000;
  const Var logits = variable(mixed({rows, classes}, 1, 4));
  std::vector<std::int32_t> targets(rows);
  for (Index i = 0; i < rows; ++i) {
    targets[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 7919 % classes);
  }
  const Tensor target = Tensor::of(Shape{rows}, std::span<const std::int32_t>(targets));
  return {.sizes = {{"rows", rows}, {"classes", classes}}, .step = [=] {
            return differentiate(cross_entropy(logits, target), scalar(1), {logits});
          }};
}

/// 20 million parameters and their gradients.
struct Large {
  nn::Parameters parameters;
  Gradients gradients;

  Large() {
    Var total = scalar(0);
    for (std::uint32_t i = 0; i < 10; ++i) {
      const Var w = parameters.add(std::to_string(i), {2000, 1000}, nn::init::zeros());
      total = total + sum(w * mixed(w.shape(), i));
    }
    gradients = backward(total);
  }
};

Part adam() {
  auto large = std::make_shared<Large>();
  auto adam = std::make_shared<nn::Adam>(large->parameters);
  return {.sizes = {}, .step = [=] {
            adam->step(large->gradients);
            return Results{large->parameters["0"].value()};
          }};
}

/// Each step clips to 0.999 times the last norm, so that the gradients are always scaled.
Part clip() {
  auto large = std::make_shared<Large>();
  return {.sizes = {}, .step = [=, norm = large->gradients.global_norm()]() mutable {
            const double before = nn::clip_by_global_norm(large->gradients, norm *= 0.999);
            return Results{scalar(before), large->gradients.all()[0]};
          }};
}

/// A training step of a speech model: pyramid encoder over frames, additive attention, decoder of
/// words. Results: the loss and the clipped gradients, ordered by parameter name.
struct ListenerModel {
  static constexpr Index S = 400, B = 32, D = 40, H = 128, E = 32, R = 64, T = 20, V = 32;
  nn::Parameters parameters;
  models::Listener listener;
  models::BahdanauDecoder decoder;
  nn::Adam adam;
  Tensor frames = mixed({S, B, D}, 1), mask = ones({S, B});
  models::Target words;

  ListenerModel()
      : listener(nn::Scope(parameters) / "listener",
                 {.features = D, .hidden = H, .join = {2, 2, 2}}),
        decoder(parameters,
                {.target_vocabulary = V,
                 .embedding = E,
                 .hidden = H,
                 .readout = R,
                 .cell = nn::Cell::lstm},
                listener.sizes(),
                nn::Attention(nn::AdditiveScore(nn::Scope(parameters) / "attention", H, 2 * H,
                                                {.attention = H}))),
        adam(parameters) {
    std::uint32_t seed = 2;
    for (auto [name, x] : by_name())
      fill_mixed(x.mutable_data<float>(), static_cast<std::uint32_t>(x.size()), seed++, 0.1f);
    words = {.previous = ids(7919), .next = ids(104729), .mask = ones({T, B})};
  }

  std::map<std::string, Tensor> by_name() const {
    std::map<std::string, Tensor> all;
    for (const auto& [name, variable] : parameters) all.emplace(name, variable.value());
    return all;
  }

  static Tensor ids(Index factor) {
    std::vector<std::int32_t> all;
    for (Index i = 0; i < T * B; ++i) all.push_back(static_cast<std::int32_t>(i * factor % V));
    return Tensor::of({T, B}, std::span<const std::int32_t>(all));
  }

  Results step() {
    const Var loss = models::loss(decoder, listener(frames, mask), words);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1);
    Results results = {loss.value()};
    for (const auto& [name, x] : by_name()) results.push_back(gradients[parameters[name]]);
    adam.step(gradients);
    return results;
  }
};

Part listener() {
  using M = ListenerModel;
  auto model = std::make_shared<M>();
  return {.sizes = {{"B", M::B}, {"H", M::H}, {"S", M::S}, {"T", M::T}},
          .step = [=] { return model->step(); }};
}

const std::map<std::string, Part (*)()>& parts() {
  static const std::map<std::string, Part (*)()> all = {
      {"lstm_fwd_bwd", lstm},
      {"additive_attention_fwd_bwd", additive_attention},
      {"cross_entropy_fwd_bwd", mean_cross_entropy},
      {"adam_20m", adam},
      {"clip_norm_20m", clip},
      {"listener_step", listener},
  };
  return all;
}

/// Prints a JSON line. "norms" are those of the results of a first, untimed step.
void measure(const std::string& name, int steps, int warmup) {
  const Part part = parts().at(name)();
  Json line = {{"peer", "attune"}, {"threads", threads()}, {"bench", name}};
  for (const auto& [letter, size] : part.sizes) line[letter] = size;
  for (const Tensor& x : part.step()) {
    line["norms"].push_back(std::sqrt(sum_of_squares(x)));  // independent of the memory layout
  }
  const Times times = timed(steps, warmup, [&](int) { part.step(); });
  if (part.gflop > 0) {
    line["gflop"] = rounded(part.gflop, 3);
    line["gflops"] = rounded(part.gflop / times.median(), 1);
  }
  print(std::move(line), times);
}

}  // namespace
}  // namespace attune::bench

int main(int argc, char** argv) {
  using namespace attune;
  std::vector<std::string> only;
  for (const auto& [name, make] : bench::parts()) only.push_back(name);
  int threads = 0, steps = 20, warmup = 3;
  CLI::App app("Times parts of models, forward and backward.", "parts");
  app.footer("Prints a JSON line per result. bench/compare.py --parts compares them with a peer.");
  bench::add_common_options(app, threads, steps, warmup);
  app.add_option("--only", only, "parts to time")->delimiter(',')->check(CLI::IsMember(only));
  return bench::run_program(app, argc, argv, [&] {
    if (threads > 0) set_threads(threads);
    for (const std::string& name : only) bench::measure(name, steps, warmup);
    return 0;
  });
}
