#include <limits>
#include <optional>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/models_batches.hpp"
#include "support/threads_scope.hpp"

namespace {

using namespace attune;
using models::ReadoutKind;
using models::ReadoutState;
using models::Seq2Seq;
using models::Seq2SeqOptions;
using models::Start;
using test::difference;
using test::identical;

// ---- Numbers from PyTorch

struct Names {
  const char *model, *golden;
};

constexpr Names kNames[] = {
    {"source.E", "source_embedding"},
    {"target.E", "target_embedding"},
    {"encoder.layer1.forward.W_x", "forward.W_x"},
    {"encoder.layer1.forward.W_h", "forward.W_h"},
    {"encoder.layer1.forward.b", "forward.b"},
    {"encoder.layer1.forward.b_hn", "forward.b_hn"},
    {"encoder.layer1.backward.W_x", "backward.W_x"},
    {"encoder.layer1.backward.W_h", "backward.W_h"},
    {"encoder.layer1.backward.b", "backward.b"},
    {"encoder.layer1.backward.b_hn", "backward.b_hn"},
    {"bridge.W", "W_init"},
    {"bridge.b", "b_init"},
    {"attention.W_a", "W_a"},
    {"attention.U_a", "U_a"},
    {"attention.v_a", "v_a"},
    {"decoder.layer1.W_x", "W_y"},
    {"decoder.W_c", "W_c"},
    {"decoder.layer1.W_h", "W_h"},
    {"decoder.layer1.b", "b"},
    {"decoder.layer1.b_hn", "b_hn"},
    {"readout.U_o", "U_s"},
    {"readout.V_o", "U_y"},
    {"readout.C_o", "U_c"},
    {"readout.b_o", "b_o"},
    {"output.W", "W_o"},
    {"output.b", "b_out"},
};

/// Largest difference where the mask is 1; x and y are (T, B, ...).
double masked_difference(const Tensor& x, const Tensor& y, const Tensor& mask) {
  double largest = 0;
  for (Index t = 0; t < mask.dim(0); ++t) {
    for (Index b = 0; b < mask.dim(1); ++b) {
      if (mask[t][b].item() == 1) largest = std::max(largest, difference(x[t][b], y[t][b]));
    }
  }
  return largest;
}

/// (T, S, B) -> (T, B, S)
Tensor rows_of_weights(const Tensor& weights) {
  std::vector<Tensor> steps;
  for (Index t = 0; t < weights.dim(0); ++t) {
    std::vector<Tensor> rows;
    for (Index b = 0; b < weights.dim(2); ++b) {
      rows.push_back(slice(weights[t], 1, b, b + 1).reshape({-1}));
    }
    steps.push_back(stack(rows));
  }
  return stack(steps);
}

void check_golden(const Golden& golden, ReadoutKind kind) {
  nn::Parameters params(1, DType::f64);
  const Seq2Seq model(params, {.source_vocabulary = 11,
                               .target_vocabulary = 13,
                               .embedding = 7,
                               .hidden = 4,
                               .score = {.attention = 9},
                               .readout_kind = kind,
                               .readout = 10});
  REQUIRE(params.all().size() == std::size(kNames));
  for (const auto& [name, theirs] : kNames) test::set(params, name, golden[theirs]);
  const text::Batch batch{.source = golden["source"],
                          .source_mask = golden["source_mask"],
                          .previous = golden["previous"],
                          .next = golden["next"],
                          .target_mask = golden["target_mask"]};

  const Seq2Seq::State start = model.start(model.encode(batch.source, batch.source_mask));
  CHECK(difference(start.s.value(), golden["s_0"]) < 1e-10);
  CHECK(masked_difference(start.source->memory.h.value(), golden["memory"], batch.source_mask) <
        1e-10);
  const auto [logits, weights] = force(model, batch);
  CHECK(masked_difference(logits.value(), golden["logits"], batch.target_mask) < 1e-10);
  REQUIRE(weights.shape() == Shape{5, 6, 3});
  CHECK(masked_difference(rows_of_weights(weights.value()), rows_of_weights(golden["alphas"]),
                          batch.target_mask) < 1e-10);

  const Var loss = model.loss(batch);
  CHECK(std::abs(loss.item() - golden.number("loss")) < 1e-10);
  const Gradients gradients = backward(loss);
  for (const auto& [name, theirs] : kNames) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[params[name]], golden[std::string("d_") + theirs]) < 1e-10);
  }
}

TEST_CASE("Seq2Seq: loss, logits, weights and all gradients are PyTorch's") {
  check_golden(Golden("bahdanau"), ReadoutKind::tanh);
}

TEST_CASE("Seq2Seq: with maxout, loss, logits, weights and all gradients are PyTorch's") {
  check_golden(Golden("bahdanau").at("maxout/"), ReadoutKind::maxout);
}

// ---- All variants

/// A tiny model, every extent another.
Seq2SeqOptions tiny() {
  return {.source_vocabulary = 6,
          .target_vocabulary = 7,
          .embedding = 3,
          .hidden = 2,
          .score = {.attention = 4},
          .readout = 5};
}

constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

std::string description(const Seq2SeqOptions& o) {
  return std::string(nn::name_of(o.encoder_cell)) + " -> " + nn::name_of(o.decoder_cell) +
         (o.start == Start::bridge ? ", bridge" : ", from zero") +
         (o.readout_kind == ReadoutKind::maxout ? ", maxout" : ", tanh") +
         (o.readout_state == ReadoutState::previous ? " of the previous state" : "");
}

std::vector<Seq2SeqOptions> all_variants() {
  std::vector<Seq2SeqOptions> variants;
  for (const nn::Cell encoder : kCells) {
    for (const nn::Cell decoder : kCells) {
      for (const Start start : {Start::zero, Start::bridge}) {
        for (const ReadoutKind kind : {ReadoutKind::tanh, ReadoutKind::maxout}) {
          for (const ReadoutState state : {ReadoutState::current, ReadoutState::previous}) {
            Seq2SeqOptions& o = variants.emplace_back(tiny());
            o.encoder_cell = encoder;
            o.decoder_cell = decoder;
            o.start = start;
            o.readout_kind = kind;
            o.readout_state = state;
          }
        }
      }
    }
  }
  return variants;
}

/// Gradients of the logits and weights of a ragged batch, with parameters `scale` times their
/// initial values of that seed. The step is small, so that few maxouts have their kink within it.
GradcheckResult check_at(std::uint64_t seed, const Seq2SeqOptions& options, double scale) {
  nn::Parameters params(seed, DType::f64);
  const Seq2Seq model(params, options);
  test::scale_parameters(params, scale);
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 3), DType::f64);
  const auto run = [&] {
    const auto [logits, weights] = force(model, batch);
    return test::flat({logits, weights});
  };
  return gradcheck(params, run, {.step = scale == 1 ? 2e-4 : 2e-5});
}

GradcheckResult check_gradients(const Seq2SeqOptions& options, double scale) {
  return test::gradcheck_off_kinks(
      6, 11, [&](std::uint64_t seed) { return check_at(seed, options, scale); });
}

TEST_CASE("Seq2Seq: gradients of every variant agree with differences") {
  for (const Seq2SeqOptions& options : all_variants()) {
    INFO(description(options));
    CHECK(check_gradients(options, 1));
  }
}

TEST_CASE("Seq2Seq: gradients of every variant agree at ten times the initial values") {
  for (const Seq2SeqOptions& options : all_variants()) {
    INFO(description(options));
    CHECK(check_gradients(options, 10));
  }
}

TEST_CASE("Seq2Seq: gradients of the loss agree with differences") {
  nn::Parameters params(6, DType::f64);
  const Seq2Seq model(params, tiny());
  test::scale_parameters(params, 1);
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 3), DType::f64);
  CHECK(gradcheck(params, [&] { return model.loss(batch); }, {.step = 5e-4}));
}

TEST_CASE("Seq2Seq: loss is the mean cross-entropy of force()'s logits") {
  nn::Parameters params(4, DType::f64);
  const Seq2Seq model(params, tiny());
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  const Tensor logits = force(model, batch).logits.value();
  double total = 0, words = 0;
  for (Index t = 0; t < 4; ++t) {
    for (Index b = 0; b < 3; ++b) {
      if (batch.target_mask[t][b].item() == 0) continue;
      const std::vector<double> row = logits[t][b].to_vector<double>();
      double sum = 0;
      for (double x : row) sum += std::exp(x);
      total += std::log(sum) - row[static_cast<std::size_t>(batch.next[t][b].item())];
      ++words;
    }
  }
  CHECK(words == 7);  // 3 + 0 + 1, and </s> three times
  CHECK(std::abs(model.loss(batch).item() - total / words) < 1e-13);
}

// ---- Training

/// Short sentences to be copied, of words 4 to 7.
text::Batch copy_task() {
  std::vector<text::Pair> pairs;
  for (const text::Sentence& s : test::random_sentences({1, 2, 3, 4, 2, 3, 4, 3}, 8, 1, 4)) {
    pairs.push_back({s, s});
  }
  return text::make_batch(pairs);
}

TEST_CASE("Seq2Seq: learns a few sentences by heart") {
  const text::Batch batch = copy_task();
  for (const nn::Cell cell : kCells) {
    INFO(nn::name_of(cell));
    nn::Parameters params(1);
    const Seq2Seq model(params, {.source_vocabulary = 8,
                                 .target_vocabulary = 8,
                                 .embedding = 12,
                                 .hidden = 16,
                                 .encoder_cell = cell,
                                 .decoder_cell = cell,
                                 .score = {.attention = 10},
                                 .readout = 14});
    nn::Adam adam(params, {.rate = 1e-2});
    for (int i = 0; i < 200; ++i) {
      Gradients gradients = backward(model.loss(batch));
      nn::clip_by_global_norm(gradients, 1);
      adam.step(gradients);
    }
    CHECK(model.loss(batch).item() < 0.05);
  }
}

/// Weights after training with dropout on large enough a batch that work is cut into tiles.
std::vector<Tensor> train(std::uint64_t seed, int n) {
  const test::ThreadsScope guard(n);
  std::vector<Index> lengths;
  for (Index i = 0; i < 48; ++i) lengths.push_back(1 + i % 7);
  const auto sources = test::random_sentences(lengths, 300, 1);
  const auto targets = test::random_sentences(lengths, 280, 2);
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  const text::Batch batch = text::make_batch(pairs);

  nn::Parameters params(seed);
  const Seq2Seq model(params, {.source_vocabulary = 300,
                               .target_vocabulary = 280,
                               .embedding = 40,
                               .hidden = 64,
                               .score = {.attention = 48},
                               .readout = 56,
                               .dropout = 0.2});
  nn::Adam adam(params);
  Random random(seed);
  for (int i = 0; i < 20; ++i) {
    const nn::Training training(random);
    Gradients gradients = backward(model.loss(batch));
    nn::clip_by_global_norm(gradients, 1);
    adam.step(gradients);
  }
  std::vector<Tensor> weights;
  for (const auto& [name, w] : params) weights.push_back(w.value().clone());
  return weights;
}

TEST_CASE("Seq2Seq: the same seed trains the same weights to the bit, with one thread or two") {
  const std::vector<Tensor> one = train(1, 1), again = train(1, 1), two = train(1, 2);
  const std::vector<Tensor> other = train(2, 1);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(identical(one[i], again[i]));
    CHECK(identical(one[i], two[i]));
    CHECK_FALSE(identical(one[i], other[i]));
  }
}

TEST_CASE("Seq2Seq: dropout acts in training only") {
  Seq2SeqOptions options = tiny();
  nn::Parameters params(1, DType::f64), plain_params(1, DType::f64);
  const Seq2Seq plain(plain_params, options);
  options.dropout = 0.5;
  const Seq2Seq model(params, options);
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  CHECK(model.loss(batch).item() == plain.loss(batch).item());
  const auto in_training = [&](const Seq2Seq& m, std::uint64_t seed) {
    Random random(seed);
    const nn::Training training(random);
    return m.loss(batch).item();
  };
  CHECK(in_training(model, 1) != plain.loss(batch).item());
  CHECK(in_training(model, 1) == in_training(model, 1));
  CHECK(in_training(model, 1) != in_training(model, 2));
  CHECK(in_training(plain, 1) == plain.loss(batch).item());
}

// ---- Options

TEST_CASE("Seq2Seq: the decoder starts from zero, or from the bridge") {
  Seq2SeqOptions options = tiny();
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  options.start = Start::zero;
  nn::Parameters params(1, DType::f64), with_bridge(1, DType::f64);
  const Seq2Seq from_zero(params, options);
  CHECK_FALSE(params.contains("bridge.W"));
  CHECK(identical(from_zero.start(from_zero.encode(batch.source, batch.source_mask)).s.value(),
                  zeros({3, 2}, DType::f64)));
  options.start = Start::bridge;
  const Seq2Seq bridged(with_bridge, options);
  CHECK(with_bridge["bridge.W"].shape() == Shape{2, 2});
  // tanh(W ←h_1 + b), where ←h_1 is the second half of the annotation of the first word
  const Seq2Seq::State state = bridged.start(bridged.encode(batch.source, batch.source_mask));
  const Tensor h = slice(state.source->memory.h.value()[0], 1, 2, 4);
  CHECK(difference(state.s.value(), tanh(matmul(h, with_bridge["bridge.W"].value()) +
                                         with_bridge["bridge.b"].value())) < 1e-14);
}

TEST_CASE("Seq2Seq: a mask of another dtype means the same, or is an error") {
  for (const Start start : {Start::zero, Start::bridge}) {
    Seq2SeqOptions options = tiny();
    options.start = start;
    nn::Parameters params(1, DType::f64);
    const Seq2Seq model(params, options);
    const auto loss = [&](DType mask) {
      return model.loss(text::make_batch(test::ragged_pairs(6, 7, 8), mask)).item();
    };
    // Where a decoder starts from zeros, these are made in the mask's dtype.
    if (start == Start::zero) CHECK_THROWS_AS(loss(DType::f32), Error);
    if (start == Start::bridge) CHECK(loss(DType::f32) == loss(DType::f64));
  }
}

TEST_CASE("Seq2Seq: a word outside of the vocabulary is an error") {
  nn::Parameters params(1);
  const Seq2Seq model(params, tiny());
  CHECK_THROWS_AS(model.loss(text::make_batch({{text::Pair{{6}, {3}}}})), Error);
  CHECK_THROWS_AS(model.loss(text::make_batch({{text::Pair{{5}, {7}}}})), Error);
}

}  // namespace
