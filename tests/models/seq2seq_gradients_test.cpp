// Gradients of the general model: every score with every window, wiring and cell, and then every
// other option.
#include <span>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/seq2seq.hpp>

#include "models/wirings.hpp"
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

using Values = std::vector<std::string>;

/// An option and the values that it takes.
struct Axis {
  std::string option;
  Values values;
};

const Values kCells = {"lstm", "gru", "gru-reset-before"},
             kWindows = {"global", "local-m", "local-p"}, kAttend = {"before", "between", "after"},
             kFeeding = {"no", "yes"};

/// f(options) for every combination of values, with these changes of tiny().
template <class F>
void for_each_combination(const std::string& changes, std::span<const Axis> axes, const F& f) {
  if (axes.empty()) {
    Seq2SeqOptions o = tiny();
    test::change(o, changes);
    return f(o);
  }
  for (const std::string& value : axes.front().values)
    for_each_combination(changes + " " + axes.front().option + "=" + value, axes.subspan(1), f);
}

/// Every score, and the second form of concat. An encoder in two directions is made half as wide
/// for scores without weights of their own (encoder_hidden()): 2 in each direction of 4, else 2.
Values scores(bool with_sizes = true) {
  Values all;
  for (const nn::ScoreKind& kind : nn::score_kinds()) {
    all.emplace_back(kind.name);
    if (with_sizes) all.back() += kind.direct ? " hidden=4" : " hidden=2";
  }
  all.push_back(with_sizes ? "concat concat-form=identity hidden=2"
                           : "concat concat-form=identity");
  return all;
}

TEST_CASE("Seq2Seq: gradients of every score x window x wiring x cell agree with differences") {
  const Axis axes[] = {{"score", scores()},
                       {"window", kWindows},
                       {"attend", kAttend},
                       {"input-feeding", kFeeding},
                       {"encoder-cell", kCells}};
  for_each_combination("", axes, [](Seq2SeqOptions o) {
    o.decoder_cell = o.encoder_cell;
    check_at_next_scale(o);
  });
}

TEST_CASE("Seq2Seq: gradients of every pair of cells agree with differences, and none is zero") {
  const Axis axes[] = {{"encoder-cell", kCells},
                       {"decoder-cell", kCells},
                       {"start", {"zero", "bridge"}},
                       {"readout-kind", {"tanh", "maxout"}}};
  for_each_combination(
      "", axes, [](const Seq2SeqOptions& o) { check_at_next_scale(o, /*allow_zero=*/false); });
}

TEST_CASE("Seq2Seq: gradients of every other option agree with differences") {
  const struct {
    const char* changes;
    std::vector<Axis> axes;
  } cases[] = {{"encoder-cell=lstm",
                {{"start", {"zero", "last", "mean", "bridge"}},
                 {"reading", {"forward", "backward", "bidirectional"}},
                 {"decoder-cell", kCells}}},
               {"",
                {{"attend", {"last-state", "never"}},
                 {"input-feeding", kFeeding},
                 {"readout-kind", {"tanh", "attentional"}}}},
               {"hidden=3 encoder-layers=2 decoder-layers=2 start=last",
                {{"attend", {"before", "between", "after", "never"}},
                 {"residual", {"no", "yes"}},
                 {"reading", {"forward", "bidirectional"}}}},
               {"",
                {{"readout-kind", {"tanh", "maxout", "attentional"}},
                 {"readout-state", {"current", "previous"}},
                 {"readout-layers", {"1", "3"}},
                 {"input-feeding", kFeeding}}},
               {"coverage=summed", {{"score", scores(/*with_sizes=*/false)}, {"window", kWindows}}},
               {"normalizer=sparsemax", {{"window", kWindows}, {"attend", kAttend}}},
               {"self-attention=2", {}}};
  for (const auto& [changes, axes] : cases)
    for_each_combination(changes, axes, check_at_both_scales);
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

TEST_CASE("Seq2Seq: gradients of the loss in training agree with differences") {
  Seq2SeqOptions o = tiny();
  o.score.coverage = nn::Coverage::summed;
  o.dropout = 0.3;
  o.decoder_layers = o.encoder_layers = 2;
  for (const bool feeding : {false, true}) {
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

}  // namespace
}  // namespace attune::models
