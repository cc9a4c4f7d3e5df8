// "Listen, attend and spell" (Chan, Jaitly, Le and Vinyals, 2016): each letter is a noisy spectrum
// that lasts 8 to 16 frames.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

constexpr Index bands = 8, letters = 6, hidden = 32, batch = 50, longest = 6 * 16;

/// Words of 2 to 6 letters; letters are numbers from 4 on, since the first four are special.
struct Speech {
  Tensor frames = zeros({longest, batch, bands}), mask = zeros({longest, batch});
  std::vector<text::Sentence> words = std::vector<text::Sentence>(batch);
};
Speech draw(Random& random) {
  Speech s;
  for (Index b = 0; b < batch; ++b) {
    Index t = 0;
    for (Index n = 2 + random.below(5); n > 0; --n) {
      const Index letter = random.below(letters);
      s.words[b].push_back(4 + letter);
      for (const Index end = t + 8 + random.below(9); t < end; ++t) {
        s.mask.mutable_at<float>({t, b}) = 1;
        for (Index k = 0; k < bands; ++k) {
          const double level = std::cos((letter + 1) * (k + 0.5) * M_PI / bands);
          s.frames.mutable_at<float>({t, b, k}) = level + 0.5 * random.normal();
        }
      }
    }
  }
  return s;
}

/// Section 3.1: each layer but the first joins two steps of the one below, so that one annotation
/// stands for four frames.
struct Listener {
  explicit Listener(const nn::Scope& scope) {
    for (const char* name : {"layer1", "layer2", "layer3"})
      layers_.emplace_back(scope / name, layers_.empty() ? bands : 4 * hidden, hidden);
  }

  models::Encoded operator()(const Speech& speech) const {
    nn::Sequence s{speech.frames, speech.mask};
    for (const auto& layer : layers_) {
      if (&layer != &layers_.front()) s = nn::join_steps(s, 2);
      s.x = layer(s.x, {.mask = s.mask}).h;
    }
    return {s.x, {}, s.mask};
  }
  std::vector<nn::Bidirectional<nn::Lstm>> layers_;
};

/// Section 3.2:  s_i = LSTM(s_{i-1}, [y_{i-1}; c_{i-1}]),  c_i = attention(s_i, h),
///               p(y_i) = MLP([s_i; c_i])
struct Speller {
  struct State {
    nn::Memory memory;
    nn::RecurrentState s;
    Var c;
  };
  using Output = Var;  // [s_i; c_i]

  explicit Speller(const nn::Scope& scope)
      : embedding_(scope / "target", 4 + letters, hidden),
        cell_(scope / "cell", 3 * hidden, hidden),
        attention_(
            nn::AdditiveScore(scope / "attention", hidden, 2 * hidden, {.attention = hidden})),
        inner_(scope / "inner", 3 * hidden, hidden),
        output_(scope / "output", hidden, 4 + letters) {}

  State start(const models::Encoded& heard) const {
    return {attention_.remember(heard.h, heard.mask), {}, zeros({heard.mask.dim(1), 2 * hidden})};
  }
  Var read(const Tensor& previous) const { return embedding_(previous); }
  models::DecoderStep<Output, State> step(const Var& y, const State& before) const {
    const nn::RecurrentState s = cell_.step(cell_.input(concat({y, before.c}, -1)), before.s);
    const auto [c, weights] = attention_({s.h}, before.memory);
    return {concat({s.h, c}, -1), weights, {before.memory, s, c}};
  }
  Var logits(const Var&, const std::vector<Output>& outputs) const {
    return output_(tanh(inner_(stack(outputs))));
  }
  State select(const State& s, const Tensor& rows) const {
    return {nn::select(s.memory, rows), nn::select(s.s, rows), nn::select(s.c, rows)};
  }
  nn::Embedding embedding_;
  nn::Lstm cell_;
  nn::Attention attention_;
  nn::Linear inner_, output_;
};

int main() {
  nn::Parameters params(/*seed=*/1);
  const Listener listener(params / "listener");
  const Speller speller(params / "speller");
  nn::Adam adam(params, {.rate = 5e-3});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 400; ++step) {
    const Speech s = draw(random);
    const nn::Training training(random);
    const Var loss = models::loss(speller, listener(s), text::make_target_batch(s.words));
    adam.step(backward(loss));
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
  const Speech s = draw(random);
  const auto found = models::search(speller, listener(s), {.beam = 4});
  int right = 0;
  for (Index i = 0; i < batch; ++i) right += found[i][0].words == s.words[i];
  std::cout << right << " of 50 words right\n";
  return right >= 40 ? 0 : 1;
}
