// The Transformer: gradients, single steps and all steps in parallel. Properties that hold for any
// model are in papers_test.cpp, PyTorch's numbers in transformer_golden_test.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/loss.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/transformer.hpp>
#include <attune/nn/optimisers.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace attune::models {
namespace {

using nn::Nonlinearity, nn::Norm;
using test::force, test::Forced;
using Words = std::vector<std::int32_t>;

constexpr Index kWords = 9;  // of either side

TransformerOptions tiny(Norm norm = Norm::before, Nonlinearity f = Nonlinearity::gelu,
                        Tied tied = Tied::target_output) {
  return {.source_vocabulary = kWords,
          .target_vocabulary = kWords,
          .layer = {.size = 8, .heads = 2, .inner = 5, .nonlinearity = f, .norm = norm},
          .encoder_layers = 2,
          .decoder_layers = 2,
          .tied = tied};
}

/// A model with distinct probabilities: scaled initial values, and `</s>` is probable enough.
template <class M = Transformer>
struct Made {
  nn::Parameters params;
  M model;
  explicit Made(const TransformerOptions& o = tiny(), double scale = 2, DType dtype = DType::f64,
                std::uint64_t seed = 3)
      : params(seed, dtype), model(params, o) {
    test::scale_parameters(params, scale);
    if (params.contains("output.b")) {
      test::set(params, "output.b",
                Tensor::of({kWords}, {0., 0., 2., 0., 0., 0., 0., 0., 0.}).to(dtype));
    }
  }
};

/// Sources of 2, 4 and 1 words, targets of 3, 0 and 1, `</s>` not counted.
text::Batch ragged() { return text::make_batch(test::ragged_pairs(kWords, kWords, 3)); }

Encoded encoded(const auto& model, const text::Batch& batch) {
  return model.encode(batch.source, batch.source_mask);
}

/// Steps [begin, end) of one sentence: x (T, B, ...).
Tensor part(const Tensor& x, Index begin, Index end, Index column) {
  return slice(slice(x, 0, begin, end), 1, column, column + 1);
}

// ---- Gradients

TEST_CASE("Transformer: gradients are central differences, also at larger initial values") {
  const struct {
    Norm norm;
    Nonlinearity f;
    Tied tied;
    double scale;
  } cases[] = {
      {Norm::before, Nonlinearity::relu, Tied::none, 1},
      {Norm::before, Nonlinearity::gelu, Tied::target_output, 3},
      {Norm::before, Nonlinearity::gelu, Tied::all, 10},
      {Norm::after, Nonlinearity::gelu, Tied::none, 1},
      {Norm::after, Nonlinearity::relu, Tied::all, 3},
      {Norm::after, Nonlinearity::gelu, Tied::target_output, 10},
  };
  const text::Batch batch = ragged();
  for (const auto& c : cases) {
    CAPTURE((&c - cases));
    CHECK(test::gradcheck_off_kinks(1, 20, [&](std::uint64_t seed) {
      const Made made(tiny(c.norm, c.f, c.tied), c.scale, DType::f64, seed);
      const auto run = [&] { return loss(made.model, batch, {.label_smoothing = 0.1}); };
      // A softmax of large scores has a gradient of 0.
      return gradcheck(made.params, run,
                       {.step = c.scale < 10 ? 2e-4 : 2e-5, .allow_zero = c.scale == 10});
    }));
  }
}

TEST_CASE("Transformer: gradients of attention losses, and of training with dropout") {
  const text::Batch batch = ragged();
  const Guide guide{
      alignment_guide(std::vector<text::Alignment>{{{0, 0}, {1, 2}}, {}, {{0, 0}}}, batch), 0.7};
  // 0 is the penultimate layer, here the first one.
  for (const auto& [layer, dropout] : {std::pair<Index, double>{0, 0.3}, {2, 0.0}}) {
    CAPTURE_BINDING(layer);
    TransformerOptions o = tiny();
    o.alignment_layer = layer;
    o.layer.dropout = dropout;
    CHECK(test::gradcheck_off_kinks(3, 20, [&](std::uint64_t seed) {
      const Made made(o, 2, DType::f64, seed);
      const auto run = [&] {
        Random random(5);  // the same elements are dropped every time
        const nn::Training training(random);
        return loss(made.model, batch, {.label_smoothing = 0.2, .coverage = 0.5, .guide = guide});
      };
      return gradcheck(made.params, run, {.step = 1e-4});
    }));
    // Gradients of the guide reach the cross-attention of its layer, but not of layers above.
    const Made made(o);
    const Gradients gradients =
        backward(guided_alignment_loss(force(made.model, batch).weights, guide.alignment));
    const auto reached = [&](const char* name) {
      const Tensor* g = gradients.find(made.params[name]);
      return g && sum(*g * *g).item() > 0;
    };
    CHECK(reached("decoder.layer1.cross.query.W"));
    CHECK(reached("decoder.layer1.cross.output.W") == (o.alignment_layer == 2));
    CHECK(reached("decoder.layer2.cross.query.W") == (o.alignment_layer == 2));
  }
}

// ---- Single steps, and all steps in parallel

/// Checks that single steps give the logits and weights of teacher forcing.
void check_steps(const Model& model, const Model::Source& source, const Tensor& previous,
                 const Forced& expected) {
  Model::State state = model.start(source);
  for (Index t = 0; t < previous.dim(0); ++t) {
    CAPTURE(t);
    const auto [logits, weights] = test::step_from(model, previous[t], state);
    CHECK(difference(logits, expected.logits.value()[t]) <= 1e-12);
    REQUIRE(weights.defined() == expected.weights.defined());
    if (weights.defined()) CHECK(difference(weights, expected.weights.value()[t]) <= 1e-12);
  }
}

TEST_CASE("TransformerLm: single steps equal all steps in parallel") {
  const text::Batch batch = ragged();
  for (const Norm norm : {Norm::before, Norm::after}) {
    const Made<TransformerLm> lm(tiny(norm, Nonlinearity::relu));
    check_steps(lm.model, no_source(3), batch.previous,
                force(lm.model, no_source(3), batch.previous));
  }
}

/// The logits after `previous` of one sentence of the batch alone.
Tensor alone(const Model& model, const text::Batch& batch, Index sentence, const Words& previous) {
  const Index length = static_cast<Index>(sum(batch.source_mask, {0})[sentence].item());
  const Model::Source source = model.encode(part(batch.source, 0, length, sentence),
                                            part(batch.source_mask, 0, length, sentence));
  const Index steps = std::ssize(previous);
  return force(model, source, Tensor::of({steps, 1}, std::span<const std::int32_t>(previous)))
      .logits.value()[steps - 1][0];
}

TEST_CASE("Transformer: selected rows give the same results as alone") {
  const Made made;
  const text::Batch batch = ragged();
  const Model model = made.model;
  Model::State state = model.start(encoded(made.model, batch));
  std::vector<Index> sentences = {0, 1, 2};
  std::vector<Words> previous(3);
  Random random(1);
  const std::vector<std::int32_t> cases[] = {{0, 1, 2},        // nobody moves
                                             {2, 0, 0, 1, 2},  // repeated and reordered
                                             {4, 2, 1, 3, 0},  // of one sentence: change places
                                             {4, 1, 1, 3, 0},  // one takes the place of another
                                             {3, 0},           // a sentence is finished
                                             {1, 0}};          // sentences change places
  for (const std::vector<std::int32_t>& rows : cases) {
    state = model.select(state, Tensor::of({std::ssize(rows)}, std::span(rows)));
    std::vector<Index> moved;
    std::vector<Words> words;
    Words last;
    for (const std::int32_t row : rows) {
      moved.push_back(sentences[static_cast<std::size_t>(row)]);
      words.push_back(previous[static_cast<std::size_t>(row)]);
      last.push_back(static_cast<std::int32_t>(random.below(kWords)));
      words.back().push_back(last.back());
    }
    sentences = moved, previous = words;
    const Tensor logits =
        test::step_from(model, Tensor::of({std::ssize(last)}, std::span<const std::int32_t>(last)),
                        state)
            .logits;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      CAPTURE(r);
      CHECK(difference(logits[static_cast<Index>(r)],
                       alone(model, batch, sentences[r], previous[r])) <= 1e-12);
    }
  }
}

// ---- Dependencies between tokens

TEST_CASE("Transformer: tokens excluded from the loss are attended to, padding is not") {
  const Made made;
  text::Batch batch = ragged();
  const Tensor logits = force(made.model, batch).logits.value();
  batch.target_mask =
      Mask(batch.target_mask.to(DType::f64) * reals({4, 1}, {0, 1, 1, 1}));  // the first words
  for (std::int32_t word : {3, 7}) {                                         // in place of padding
    for (const Index t : {2, 3}) batch.previous.mutable_at<std::int32_t>({t, 1}) = word;
    CHECK(loss(made.model, batch).item() ==
          doctest::Approx(cross_entropy(logits, batch.next, batch.target_mask).item())
              .epsilon(1e-12));
  }
}

// ---- Its encoder under another decoder

/// A recurrent decoder on the encoder of a Transformer ("The best of both worlds", Chen et al.,
/// 2018).
struct Hybrid : BahdanauDecoder {
  Hybrid(const nn::Scope& scope, const TransformerOptions& o)
      : BahdanauDecoder(scope,
                        {.source_vocabulary = o.source_vocabulary,
                         .target_vocabulary = o.target_vocabulary,
                         .embedding = 5,
                         .hidden = 6,
                         .readout = 4,
                         .score = {.attention = 7}},
                        {o.layer.size, o.layer.size}),
        encoder(scope, o) {}
  Encoded encode(const Tensor& source, const Tensor& mask) const {
    return encoder.encode(source, mask);
  }
  TransformerEncoder encoder;
};

TEST_CASE("Transformer: gradients of its encoder under a recurrent decoder") {
  const text::Batch batch = ragged();
  CHECK(test::gradcheck_off_kinks(1, 20, [&](std::uint64_t seed) {
    const Made<Hybrid> made(tiny(), 2, DType::f64, seed);
    return gradcheck(made.params, [&] { return loss(made.model, batch); }, {.step = 2e-4});
  }));
}

// ---- A language model

TEST_CASE("TransformerLm: learns a text and generates it") {
  TransformerOptions o = tiny();
  o.layer.size = 16, o.layer.inner = 32;
  nn::Parameters params(1);
  const TransformerLm model(params, o);
  nn::Adam adam(params, {.rate = 1e-2});
  const std::vector<text::Sentence> text(2, {4, 5, 6, 4, 7, 8});
  const text::TargetBatch target = text::make_target_batch(text);
  const double before = loss(model, no_source(2), target).item();
  for (int step = 0; step < 60; ++step) {
    adam.step(backward(loss(model, no_source(2), target)));
  }
  CHECK(std::exp(before) > 5);
  CHECK(std::exp(loss(model, no_source(2), target).item()) < 1.1);
  const auto written = sample(model, no_source(3), {.temperature = 0.1}, {.max_length = 9});
  REQUIRE(written.size() == 3);
  for (const Hypothesis& h : written) {
    CHECK(h.words == text[0]);
    CHECK(h.complete);
    CHECK_FALSE(h.weights.defined());
  }
  CHECK(search(model, no_source(1), {.beam = 2})[0][0].words == text[0]);
  CHECK_ERROR("loss: a coverage loss or a guide requires a model with attention",
              loss(model, no_source(2), target, {.coverage = 1}));
}

// ---- Errors

TEST_CASE("Transformer: options and sources that do not fit are errors") {
  const auto made = [](auto change) {
    TransformerOptions o = tiny();
    change(o);
    return error_of([&] { const Made<> m(o); });
  };
  CHECK(made([](auto& o) { o.layer.heads = 3; }) ==
        "MultiHeadAttention: 3 heads do not divide a size of 8");
  CHECK(made([](auto& o) { o.alignment_layer = 3; }) ==
        "Transformer: there is no layer 3 in a decoder of 2");
  CHECK(made([](auto& o) { o.decoder_layers = 0; }) ==
        "decoder-layers: '0' is not a whole number from 1 to 64");
  CHECK(made([](auto& o) { o.tied = Tied::all, o.source_vocabulary = 10; }) ==
        "tied: all requires equal vocabulary sizes, not 10 and 9");
  CHECK(made([](auto& o) { o.layer.dropout = 1; }) ==
        "dropout: '1' is not a number from 0 to 0.99");

  const Made usual;
  CHECK_ERROR("Transformer: the source has no annotations: Encoded::h is undefined",
              search(usual.model, no_source(2)));
  Encoded other = encoded(usual.model, ragged());
  other.mask = ones({other.mask.dim(0) + 1, other.mask.dim(1)});
  CHECK(error_of([&] { search(usual.model, other); }).starts_with("Transformer: mask (S, B) is ("));
  CHECK_ERROR(
      "lengths_of: column 0 of the mask (2, 1) has a 1 after a 0, but padding after the "
      "steps was expected",
      usual.model.encode(zeros({2, 1}, DType::i32), Tensor::of<float>({2, 1}, {0, 1})));
  CHECK_ERROR("search: source 1 has no tokens",
              search(usual.model, text::SourceBatch{ragged().source, mask_of(4, {4, 0, 2})}));
}

TEST_CASE("Transformer: sequences of one token, and an empty sentence in a batch") {
  const Made made;
  const Tensor one = Tensor::of({1, 1}, {5}), mask = ones({1, 1}, DType::f64);
  const Encoded source = made.model.encode(one, mask);
  const Forced forced = force(made.model, source, one);
  check_steps(made.model, source, one, forced);
  CHECK(difference(forced.weights.value(), ones({1, 1, 1}, DType::f64)) <= 1e-15);
  // All keys of the second sentence are padding. The first gives the same result as alone.
  const Encoded two = made.model.encode(Tensor::of({1, 2}, {5, 5}), mask_of(1, {1, 0}));
  const Forced both = force(made.model, two, Tensor::of({1, 2}, {5, 5}));
  CHECK(difference(part(both.logits.value(), 0, 1, 0), forced.logits.value()) <= 1e-12);
  for (const double x : both.logits.value().to_vector<double>()) CHECK(std::isfinite(x));
}

}  // namespace
}  // namespace attune::models
