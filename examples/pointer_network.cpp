// A pointer network (Vinyals et al., 2015) sorts numbers: its output tokens are positions in the
// source.
#include <algorithm>
#include <iostream>
#include <numeric>

#include <attune/attune.hpp>

using namespace attune;

constexpr Index hidden = 64, most = 8;
constexpr std::int32_t mark = 0;  // position before the numbers, serves as <s> and </s>

struct Numbers {
  Tensor values, mask;                // (S, B, 2): the number, 1 for the mark; (S, B)
  std::vector<text::Sentence> order;  // positions of the numbers in ascending order
};

/// 3 to 8 numbers from [0, 1).
Numbers draw(Index batch, Random& random) {
  Numbers n{zeros({1 + most, batch, 2}), zeros({1 + most, batch}), {}};
  for (Index b = 0; b < batch; ++b) {
    std::vector<double> x(3 + random.below(most - 2));
    for (double& value : x) value = random.uniform();
    n.values.mutable_at<float>({0, b, 1}) = n.mask.mutable_at<float>({0, b}) = 1;
    for (std::size_t s = 0; s < x.size(); ++s) {
      n.values.mutable_at<float>({Index(s) + 1, b, 0}) = x[s];
      n.mask.mutable_at<float>({Index(s) + 1, b}) = 1;
    }
    text::Sentence order(x.size());
    std::iota(order.begin(), order.end(), 1);
    std::ranges::sort(order, {}, [&](std::int32_t position) { return x[position - 1]; });
    n.order.push_back(order);
  }
  return n;
}

/// The logits of positions j are u_j = v · tanh(W_1 e_j + W_2 d_i)  (equation 3)
struct Pointer {
  struct State {
    models::Encoded source;
    Var keys;  // e_j W_1, (S, B, A)
    nn::RecurrentState d;
  };
  using Output = Var;  // (B, S)

  explicit Pointer(const nn::Scope& scope)
      : encoder_(scope / "encoder", 2, hidden),
        cell_(scope / "decoder", hidden, hidden),
        W_1_(scope / "W_1", hidden, hidden, {.bias = false}),
        W_2_(scope / "W_2", hidden, hidden, {.bias = false}),
        v_(scope.add("v", {hidden}, nn::init::normal(0.1))) {}

  models::Encoded encode(const Numbers& n) const {
    const auto [e, last] = encoder_(n.values, {.mask = n.mask});
    return {e, {last}, n.mask};
  }
  State start(const models::Encoded& source) const {
    return {source, W_1_(source.h), source.last.front()};
  }
  Tensor read(const Tensor& previous) const { return previous; }
  /// The input is the annotation of the previous output position.
  models::DecoderStep<Output, State> step(const Tensor& position, const State& state) const {
    const Var pointed = window(state.source.h, position.reshape({1, -1}))[0];
    const nn::RecurrentState d = cell_.step(cell_.input(pointed), state.d);
    const Var u = additive_scores(W_2_(d.h), state.keys, v_);
    const Var seen = where(state.source.mask, u, -1e9);
    return {transpose(seen, 0, 1), softmax(u, 0, state.source.mask), {state.source, state.keys, d}};
  }
  Var logits(const Tensor&, const std::vector<Output>& outputs) const { return stack(outputs); }
  State select(const State& s, const Tensor& rows) const {
    return {models::select(s.source, rows), nn::select_columns(s.keys, rows),
            nn::select(s.d, rows)};
  }

  nn::Lstm encoder_, cell_;
  nn::Linear W_1_, W_2_;
  Var v_;
};

int main() {
  nn::Parameters params(/*seed=*/1);
  const Pointer model(params);
  nn::Adam adam(params, {.rate = 5e-3});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 1000; ++step) {
    const Numbers n = draw(64, random);
    const text::TargetBatch positions =
        text::make_target_batch(n.order, {.begin = mark, .end = mark});
    const nn::Training training(random);
    const Var loss = models::loss(model, model.encode(n), positions);
    adam.step(backward(loss));
    if (step % 200 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
  const Numbers n = draw(100, random);
  const auto found = models::search(
      model, model.encode(n),
      {.beam = 3, .output_tokens = models::OutputTokens::all, .begin = mark, .end = mark});
  int right = 0;
  for (int i = 0; i < 100; ++i) right += found[i][0].words == n.order[i];
  std::cout << right << " of 100 sorted\n";
  return right >= 80 ? 0 : 1;
}
