// Gradients of the general model: every score with every window, wiring and cell, and then every
// other option.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/seq2seq.hpp>

#include "nn/tools.hpp"
#include "support/models_batches.hpp"

namespace attune::models {
namespace {

constexpr Index kSourceWords = 6, kTargetWords = 7;

/// As small as can be with every extent another, where the score allows it.
Seq2SeqOptions tiny() {
  return {.source_vocabulary = kSourceWords,
          .target_vocabulary = kTargetWords,
          .embedding = 3,
          .hidden = 4,
          .score = {.attention = 6, .heads = 2, .longest = 5},
          .attention = {.half_width = 1},
          .readout_kind = ReadoutKind::tanh,
          .readout = 5};
}

std::string description(const Seq2SeqOptions& o) {
  std::string text;
  for (const auto& field : seq2seq_fields()) {
    if (field.get(o) != field.get(tiny())) text += fmt::format("{} {} ", field.name, field.get(o));
  }
  return text;
}

/// Of logits and weights of a ragged batch, with parameters of this seed, `scale` times their
/// initial values.
GradcheckResult check_at(std::uint64_t seed, const Seq2SeqOptions& options, double scale,
                         bool allow_zero) {
  nn::Parameters params(seed, DType::f64);
  const Seq2Seq model(params, options);
  test::scale_parameters(params, scale);
  const text::Batch batch =
      text::make_batch(test::ragged_pairs(kSourceWords, kTargetWords, 3), DType::f64);
  const auto run = [&] {
    const auto [logits, weights] = force(model, batch);
    return test::flat({logits, weights});
  };
  return gradcheck(params, run, {.step = scale == 1 ? 2e-4 : 2e-5, .allow_zero = allow_zero});
}

/// A window of local-m does not depend on everything.
GradcheckResult check_gradients(const Seq2SeqOptions& options, double scale,
                                bool allow_zero = true) {
  return test::gradcheck_off_kinks(
      11, 30, [&](std::uint64_t seed) { return check_at(seed, options, scale, allow_zero); });
}

void check_at_both_scales(const Seq2SeqOptions& options) {
  INFO(description(options));
  CHECK(check_gradients(options, 1));
  CHECK(check_gradients(options, 10));
}

/// For many options: each at one scale, in turns.
void check_at_next_scale(const Seq2SeqOptions& options, bool allow_zero = true) {
  static int count = 0;
  INFO(description(options));
  CHECK(check_gradients(options, ++count % 2 == 0 ? 1 : 10, allow_zero));
}

constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

std::vector<nn::ScoreOptions> scores() {
  std::vector<nn::ScoreOptions> all;
  for (const nn::ScoreKind& kind : nn::score_kinds()) {
    all.push_back(tiny().score);
    all.back().kind = kind.name;
  }
  all.push_back(tiny().score);
  all.back().kind = "concat";
  all.back().concat = nn::ConcatForm::identity;
  return all;
}

constexpr nn::Window kWindows[] = {nn::Window::global, nn::Window::local_monotonic,
                                   nn::Window::local_predictive};
constexpr Attend kAttend[] = {Attend::before, Attend::between, Attend::after};

// Nothing is left out: an encoder in two directions is made half as wide where a score without
// weights of its own compares its annotations with the decoder's state (encoder_hidden()).
template <class F>
void for_every_attention(F f) {
  for (const nn::ScoreOptions& score : scores()) {
    for (const nn::Window window : kWindows) {
      for (const Attend attend : kAttend) {
        for (const InputFeeding feeding : {InputFeeding::no, InputFeeding::yes}) {
          for (const nn::Cell cell : kCells) {
            Seq2SeqOptions o = tiny();
            o.score = score;
            o.hidden =
                nn::score_kind(score.kind).direct ? 4 : 2;  // 2 in each direction of the encoder
            o.attention.window = window;
            o.attend = attend;
            o.input_feeding = feeding;
            o.encoder_cell = o.decoder_cell = cell;
            f(o);
          }
        }
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients of every score x window x wiring x cell agree with differences") {
  for_every_attention([](const Seq2SeqOptions& o) { check_at_next_scale(o); });
}

TEST_CASE("Seq2Seq: gradients of every pair of cells agree with differences, and none is zero") {
  for (const nn::Cell encoder : kCells) {
    for (const nn::Cell decoder : kCells) {
      for (const Start start : {Start::zero, Start::bridge}) {
        for (const ReadoutKind kind : {ReadoutKind::tanh, ReadoutKind::maxout}) {
          Seq2SeqOptions o = tiny();
          o.encoder_cell = encoder;
          o.decoder_cell = decoder;
          o.start = start;
          o.readout_kind = kind;
          check_at_next_scale(o, /*allow_zero=*/false);
        }
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients of every way to start agree with differences") {
  for (const Start start : {Start::zero, Start::last, Start::mean, Start::bridge}) {
    for (const Reading reading : {Reading::forward, Reading::backward, Reading::bidirectional}) {
      for (const nn::Cell cell : kCells) {
        Seq2SeqOptions o = tiny();
        o.start = start;
        o.reading = reading;
        o.decoder_cell = cell;
        o.encoder_cell = nn::Cell::lstm;
        check_at_both_scales(o);
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients without attention agree with differences") {
  for (const Attend attend : {Attend::last_state, Attend::never}) {
    for (const InputFeeding feeding : {InputFeeding::no, InputFeeding::yes}) {
      for (const ReadoutKind kind : {ReadoutKind::tanh, ReadoutKind::attentional}) {
        Seq2SeqOptions o = tiny();
        o.attend = attend;
        o.input_feeding = feeding;
        o.readout_kind = kind;
        check_at_both_scales(o);
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients of stacks agree with differences") {
  for (const Attend attend : {Attend::before, Attend::between, Attend::after, Attend::never}) {
    for (const Residual residual : {Residual::no, Residual::yes}) {
      for (const Reading reading : {Reading::forward, Reading::bidirectional}) {
        Seq2SeqOptions o = tiny();
        o.attend = attend;
        o.residual = residual;
        o.reading = reading;
        o.hidden = 3;
        o.encoder_layers = o.decoder_layers = 2;
        o.start = Start::last;
        check_at_both_scales(o);
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients of every readout agree with differences") {
  for (const ReadoutKind kind :
       {ReadoutKind::tanh, ReadoutKind::maxout, ReadoutKind::attentional}) {
    for (const ReadoutState state : {ReadoutState::current, ReadoutState::previous}) {
      for (const Index layers : {1, 3}) {
        for (const InputFeeding feeding : {InputFeeding::no, InputFeeding::yes}) {
          Seq2SeqOptions o = tiny();
          o.readout_kind = kind;
          o.readout_state = state;
          o.readout_layers = layers;
          o.input_feeding = feeding;
          check_at_both_scales(o);
        }
      }
    }
  }
}

TEST_CASE("Seq2Seq: gradients of tied tables agree with differences") {
  for (const Tied tied : {Tied::target_output, Tied::all}) {
    Seq2SeqOptions o = tiny();
    o.tied = tied;
    o.readout = o.embedding;
    o.source_vocabulary = kTargetWords;
    check_at_both_scales(o);
  }
}

TEST_CASE("Seq2Seq: gradients with coverage agree with differences") {
  for (const nn::ScoreOptions& score : scores()) {
    for (const nn::Window window : kWindows) {
      Seq2SeqOptions o = tiny();
      o.score = score;
      o.score.coverage = nn::Coverage::summed;
      o.attention.window = window;
      check_at_both_scales(o);
    }
  }
}

TEST_CASE("Seq2Seq: gradients under sparsemax agree with differences") {
  for (const nn::Window window : kWindows) {
    for (const Attend attend : kAttend) {
      Seq2SeqOptions o = tiny();
      o.attention.normalizer = nn::Normalizer::sparsemax;
      o.attention.window = window;
      o.attend = attend;
      check_at_both_scales(o);
    }
  }
}

TEST_CASE("Seq2Seq: gradients with self-attention in the encoder agree with differences") {
  Seq2SeqOptions o = tiny();
  o.self_attention = 2;
  check_at_both_scales(o);
}

TEST_CASE("Seq2Seq: gradients of the loss in training agree with differences") {
  Seq2SeqOptions o = tiny();
  o.score.coverage = nn::Coverage::summed;
  o.dropout = 0.3;
  o.decoder_layers = o.encoder_layers = 2;
  for (const nn::DropoutKind kind : {nn::DropoutKind::elementwise, nn::DropoutKind::per_sequence}) {
    for (const InputFeeding feeding : {InputFeeding::no, InputFeeding::yes}) {
      o.dropout_kind = kind;
      o.input_feeding = feeding;
      nn::Parameters params(11, DType::f64);
      const Seq2Seq model(params, o);
      test::scale_parameters(params, 3);
      const text::Batch batch =
          text::make_batch(test::ragged_pairs(kSourceWords, kTargetWords, 3), DType::f64);
      const auto loss = [&] {
        Random random(5);  // the same elements are dropped every time
        const nn::Training training(random);
        return models::loss(model, batch, {.label_smoothing = 0.2, .coverage = 0.7});
      };
      CHECK(gradcheck(params, loss, {.step = 2e-4, .allow_zero = true}));
    }
  }
}

}  // namespace
}  // namespace attune::models
