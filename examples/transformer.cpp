// The Transformer ("Attention is all you need", Vaswani et al., 2017): an encoder and a decoder
// that learn to reverse digits. Training computes all positions at once; search recomputes the words
// so far at each step.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

constexpr Index size = 32, heads = 4, words = 4 + 10;  // D; the first four words are special

/// Section 3.2: the positions of one sequence, x, attend to another one, memory.
struct CrossAttention {
  explicit CrossAttention(const nn::Scope& scope)
      : query_(scope / "query", size, size),
        key_(scope / "key", size, size),
        value_(scope / "value", size, size),
        output_(scope / "output", size, size) {}

  /// x (T, B, D), memory (S, B, D), mask (S, B) -> (T, B, D)
  Var operator()(const Var& x, const Var& memory, const Tensor& mask) const {
    const Var scores =
        batched_matmul(split_heads(query_(x)), split_heads(key_(memory)), {.b = true});
    const Tensor places =
        permute(mask, {1, 0}).reshape({mask.dim(1), 1, mask.dim(0)});           // (B, 1, S)
    const Var weights = softmax(scores / std::sqrt(size / heads), -1, places);  // (heads, B, T, S)
    const Var read = batched_matmul(weights, split_heads(value_(memory)));
    return output_(reshape(permute(read, {2, 1, 0, 3}), {x.dim(0), x.dim(1), size}));
  }

  /// (T, B, D) -> (heads, B, T, D / heads)
  static Var split_heads(const Var& x) {
    return permute(reshape(x, {x.dim(0), x.dim(1), heads, size / heads}), {2, 1, 0, 3});
  }

  nn::Linear query_, key_, value_, output_;
};

/// Section 3.1, with the norm before each part instead of after it, which needs no warm-up. A layer
/// of the decoder also attends to `memory`; its positions do not see later ones.
struct Layer {
  Layer(const nn::Scope& scope, nn::Causal causal)
      : self_(scope / "self", size, {.heads = heads, .causal = causal}),
        cross_(scope / "cross"),
        inner_(scope / "inner", size, 4 * size),
        outer_(scope / "outer", 4 * size, size) {
    for (const char* name : {"norm1", "norm2", "norm3"}) norms_.emplace_back(scope / name, size);
  }

  Var operator()(Var x, const Tensor& mask, const models::Encoded& memory = {}) const {
    x = x + self_(norms_[0](x), mask).y;
    if (memory.h.defined()) x = x + cross_(norms_[1](x), memory.h, memory.mask);
    return x + outer_(relu(inner_(norms_[2](x))));  // section 3.3
  }

  nn::SelfAttention self_;
  CrossAttention cross_;
  nn::Linear inner_, outer_;
  std::vector<nn::LayerNorm> norms_;
};

/// Section 3.5: sin and cos of the position at wavelengths from 2π to 10000 · 2π, (T, 1, D)
Tensor positions(Index steps) {
  Tensor p = zeros({steps, 1, size});
  for (Index t = 0; t < steps; ++t) {
    for (Index i = 0; i < size; ++i) {
      const double angle = t / std::pow(10000.0, double(i / 2 * 2) / size);
      p.mutable_at<float>({t, 0, i}) = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return p;
}

struct Transformer {
  struct State {
    models::Encoded source;
    Tensor written;  // (T, B) i32, the words so far
  };
  using Output = Var;  // (B, V)

  explicit Transformer(const nn::Scope& scope)
      : source_(scope / "source", words, size, nn::init::normal(1)),
        target_(scope / "target", words, size, nn::init::normal(1)),
        encoder_(scope / "encoder", nn::Causal::no),
        decoder_(scope / "decoder", nn::Causal::yes),
        norm_(scope / "norm", size),
        output_(scope / "output", size, words) {}

  models::Encoded encode(const Tensor& source, const Tensor& mask) const {
    return {encoder_(source_(source) + positions(source.dim(0)), mask), {}, mask};
  }
  /// The logits of the words after each of these: (T, B) -> (T, B, V)
  Var operator()(const models::Encoded& source, const Tensor& previous) const {
    const Var x = target_(previous) + positions(previous.dim(0));
    return output_(norm_(decoder_(x, {}, source)));
  }

  // What search needs. An output is a step's logits already.
  State start(const models::Encoded& source) const { return {source, {}}; }
  Tensor read(const Tensor& previous) const { return previous; }
  models::DecoderStep<Var, State> step(const Tensor& word, const State& state) const {
    const Tensor last = word.reshape({1, -1});
    const Tensor all = state.written.defined() ? concat({state.written, last}, 0) : last;
    return {(*this)(state.source, all)[all.dim(0) - 1], {}, {state.source, all}};
  }
  Var logits(const Tensor&, const std::vector<Var>& outputs) const { return stack(outputs); }
  State select(const State& s, const Tensor& rows) const {
    return {models::select(s.source, rows), nn::select_columns(s.written, rows).value()};
  }

  nn::Embedding source_, target_;
  Layer encoder_, decoder_;
  nn::LayerNorm norm_;
  nn::Linear output_;
};

std::vector<text::Pair> draw(Random& random) {
  std::vector<text::Pair> pairs(64);
  for (auto& [source, target] : pairs) {
    for (Index n = 3 + random.below(6); n > 0; --n) source.push_back(4 + random.below(10));
    target.assign(source.rbegin(), source.rend());
  }
  return pairs;
}

int main() {
  nn::Parameters params(/*seed=*/1);
  const Transformer model(params);
  nn::Adam adam(params, {.rate = 3e-3});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 800; ++step) {
    const text::Batch batch = text::make_batch(draw(random));
    const nn::Training training(random);
    const Var logits = model(model.encode(batch.source, batch.source_mask), batch.previous);
    const Var loss = cross_entropy(logits, batch.next, batch.target_mask);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    if (step % 200 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
  const std::vector<text::Pair> pairs = draw(random);
  const text::Batch batch = text::make_batch(pairs);
  const auto found =
      models::search(model, model.encode(batch.source, batch.source_mask), {.beam = 2});
  int right = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) right += found[i][0].words == pairs[i].target;
  std::cout << right << " of 64 reversed\n";
  return right >= 56 ? 0 : 1;
}
