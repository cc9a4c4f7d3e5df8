// A custom model: predicts the notes of noisy melodies (one value per frame). Encoder and attention
// score are defined here; the decoder is that of Bahdanau et al. (2014).
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

constexpr Index hidden = 24, notes = 5;  // ids from 4: the first four are special tokens

/// Bidirectional LSTM over pairs of adjacent frames: (S, B, 1) -> (S/2, B, 2H)
struct FrameEncoder {
  explicit FrameEncoder(const nn::Scope& scope) : lstm_(scope / "lstm", 2, hidden) {}

  models::Encoded operator()(const Tensor& frames, const Tensor& mask) const {
    const Index S = frames.dim(0) / 2, B = frames.dim(1);
    const Tensor x = permute(frames.reshape({S, 2, B}), {0, 2, 1});
    const Tensor places = slice(mask.reshape({S, 2, B}), 1, 0, 1).reshape({S, B});
    const auto [h, last] = lstm_(x, {.mask = places});
    return {h, {last.backward}, places};
  }

  nn::Bidirectional<nn::Lstm> lstm_;
};

/// e_s = -‖q W_q - h_s W_h‖² / H
struct DistanceScore : nn::Score {
  explicit DistanceScore(const nn::Scope& scope)
      : W_q_(scope.add("W_q", {hidden, hidden}, nn::init::glorot())),
        W_h_(scope.add("W_h", {2 * hidden, hidden}, nn::init::glorot())) {}

  Var keys(const Var& memory) const override { return matmul(memory, W_h_); }
  Var operator()(const nn::Query& query, const nn::Keys& keys) const override {
    const Var distance = keys.k - matmul(query.state, W_q_);  // (S, B, H)
    return sum(distance * distance, {-1}) * (-1.0 / hidden);
  }

  Var W_q_, W_h_;
};

struct Melodies {
  std::vector<text::Sentence> notes;
  Tensor frames, mask;  // (S, B, 1), (S, B)
};

/// Noisy melodies of 3 to 6 notes, each of 4 to 8 frames and different from the one before.
Melodies draw(Index batch, Random& random) {
  Melodies m{.notes = {}, .frames = zeros({48, batch, 1}), .mask = zeros({48, batch})};
  float *level = m.frames.mutable_data<float>(), *used = m.mask.mutable_data<float>();
  for (Index b = 0; b < batch; ++b) {
    text::Sentence melody;
    for (Index at = b, n = 3 + random.below(4); n > 0; --n) {
      std::int32_t note = random.below(notes);
      if (!melody.empty() && 4 + note == melody.back()) note = (note + 1) % notes;
      melody.push_back(4 + note);
      for (Index frames = 4 + 2 * random.below(3); frames > 0; --frames, at += batch) {
        level[at] = note + 0.2 * random.normal();
        used[at] = 1;
      }
    }
    m.notes.push_back(melody);
  }
  return m;
}

int main() {
  nn::Parameters params(/*seed=*/1);
  const nn::Scope scope(params);
  const FrameEncoder encoder(scope / "encoder");
  const models::BahdanauDecoder decoder(
      scope, {.target_vocabulary = 4 + notes, .embedding = 8, .hidden = hidden, .readout = 16},
      {.h = 2 * hidden, .last = hidden}, nn::Attention(DistanceScore(scope / "attention")));
  nn::Adam adam(params, {.rate = 1e-2});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 400; ++step) {
    const Melodies m = draw(32, random);
    const text::TargetBatch target = text::make_target_batch(m.notes);
    const nn::Training training(random);
    const Var loss = models::loss(decoder, encoder(m.frames, m.mask), target);
    adam.step(backward(loss));
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << "\n";
  }
  const Melodies heard = draw(50, random);
  const auto found = models::search(decoder, encoder(heard.frames, heard.mask), {.beam = 4});
  int right = 0;
  for (int i = 0; i < 50; ++i) right += found[i][0].words == heard.notes[i];
  std::cout << right << " of 50 melodies right\n";
  report::Heatmap map{.rows = {}, .columns = {}, .weights = {}, .caption = ""};
  const models::Hypothesis& best = found[0][0];
  for (auto note : best.words) map.rows.push_back(std::to_string(note - 4));
  for (Index s = 0; s < best.weights.dim(1); ++s)
    map.columns.push_back(std::to_string(std::lround(heard.frames[2 * s][0].item())));
  map.weights = best.weights.slice(0, std::ssize(map.rows)).to_vector<double>();
  std::cout << report::terminal(map, {.colour = false});
  return right >= 40 ? 0 : 1;
}
