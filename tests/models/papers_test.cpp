// The models of papers against the model whose every choice is an option: the same parameters, and
// with them the same numbers and words.
#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>

#include "models/decoders.hpp"
#include "models/wirings.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/models_batches.hpp"

namespace attune::models {
namespace {

using test::difference;

template <class Options>
Options sized(Options o) {
  o.source_vocabulary = 9;
  o.target_vocabulary = 8;
  o.embedding = 5;
  o.hidden = 4;
  return o;
}

/// Options in which the paper's model and the general one have the same sizes.
Seq2SeqOptions general(const char* paper) {
  Seq2SeqOptions o = sized(test::wired(paper, {}));
  o.readout = o.input_feeding ? 4 : 6;
  o.score.attention = 7;
  o.dropout = 0.3;
  return o;
}

double loss_in_training(const auto& model, const text::Batch& batch) {
  Random random(5);
  const nn::Training training(random);
  return loss(model, batch).item();
}

/// Loss, gradients and words of a paper's model and of the general one.
template <class Model, class Options>
void check_same(const char* name, const Options& options, const Seq2SeqOptions& of_general) {
  CAPTURE_BINDING(name);
  nn::Parameters params(3, DType::f64), others(3, DType::f64);
  const Model model(params, options);
  const Seq2Seq general(others, of_general);
  REQUIRE(params.all().size() == others.all().size());
  for (const auto& [path, w] : others) CHECK(test::identical(params[path].value(), w.value()));
  test::scale_parameters(params, 3);
  test::scale_parameters(others, 3);

  const text::Batch batch = text::make_batch(test::ragged_pairs(9, 8, 8), DType::f64);
  const Var ours = loss(model, batch), expected = loss(general, batch);
  CHECK(std::abs(ours.item() - expected.item()) < 1e-12);
  CHECK(std::abs(loss_in_training(model, batch) - loss_in_training(general, batch)) < 1e-12);
  const Gradients a = backward(ours), b = backward(expected);
  for (const auto& [path, w] : params) {
    CAPTURE_BINDING(path);
    CHECK(difference(a[w], b[others[path]]) < 1e-12);
  }
  const SearchOptions how{.beam = 3, .max_length = 6, .best = 3};
  const auto encode = [&](const auto& m) { return m.encode(batch.source, batch.source_mask); };
  const auto found = search(model, encode(model), how);
  const auto found_by_general = search(general, encode(general), how);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t j = 0; j < found[i].size(); ++j) {
      CHECK(found[i][j].words == found_by_general[i][j].words);
      CHECK(std::abs(found[i][j].score - found_by_general[i][j].score) < 1e-12);
      CHECK(found[i][j].weights.defined() == found_by_general[i][j].weights.defined());
    }
  }
}

TEST_CASE("papers: each model is the general one with its wiring") {
  BahdanauOptions bahdanau = sized(BahdanauOptions{.attention = 7, .readout = 6, .dropout = 0.3});
  check_same<Bahdanau>("bahdanau", bahdanau, general("bahdanau"));
  check_same<Nematus>("nematus",
                      sized(NematusOptions{.attention = 7, .readout = 6, .dropout = 0.3}),
                      general("nematus"));
  check_same<EncoderDecoder>("encoder-decoder",
                             sized(EncoderDecoderOptions{.readout = 6, .dropout = 0.3}),
                             general("encoder-decoder"));
  check_same<Sutskever>("sutskever",
                        sized(SutskeverOptions{.layers = 1, .readout = 6, .dropout = 0.3}),
                        general("sutskever"));
  check_same<Luong>("luong", sized(LuongOptions{.dropout = 0.3}), general("luong"));
}

TEST_CASE("papers: Luong's scores, windows, and readouts that are not fed") {
  for (const char* score : {"dot", "general", "concat", "location"}) {
    for (const nn::Window window : {nn::Window::local_monotonic, nn::Window::local_predictive}) {
      CAPTURE(score);
      LuongOptions o = sized(LuongOptions{});
      Seq2SeqOptions of_general = general("luong");
      set_field(seq2seq_fields(), of_general, "score", score);
      of_general.dropout = 0;
      of_general.attention = {.window = window, .half_width = 1};
      of_general.input_feeding = false;
      o.score = of_general.score;
      o.attention = of_general.attention;
      o.input_feeding = false;
      check_same<Luong>("luong", o, of_general);
    }
  }
}

TEST_CASE("papers: with an LSTM, Bahdanau's and Nematus's cells have a c") {
  Seq2SeqOptions o = general("bahdanau");
  o.encoder_cell = o.decoder_cell = nn::Cell::lstm;
  o.dropout = 0;
  check_same<Bahdanau>(
      "bahdanau", sized(BahdanauOptions{.attention = 7, .readout = 6, .cell = nn::Cell::lstm}), o);
}

/// e_s = q · W h_s², a score that is not in the library.
class SquaredScore : public nn::Score {
 public:
  SquaredScore(const nn::Scope& scope, Index query, Index memory)
      : W_(scope.add("W_2", {memory, query}, nn::init::glorot())) {}
  Var keys(const Var& memory) const override { return matmul(memory * memory, W_); }
  Var operator()(const nn::Query& query, const nn::Keys& keys) const override {
    return sum(keys.k * query.state, {-1});
  }

 private:
  Var W_;
};

template <class Model, class Options>
void check_own_attention(const Options& options, Index memory) {
  nn::Parameters params(3, DType::f64);
  const nn::Scope scope(params);
  const Model model(scope, options, nn::Attention(SquaredScore(scope / "attention", 4, memory)));
  CHECK(params.contains("attention.W_2"));
  CHECK_FALSE(params.contains("attention.W_a"));
  test::scale_parameters(params, 3);
  const text::Batch batch = text::make_batch(test::ragged_pairs(9, 8, 8), DType::f64);
  CHECK(gradcheck(params, [&] { return loss(model, batch); }, {.step = 2e-4}));
}

TEST_CASE("papers: attention of one's own fits every model that attends") {
  check_own_attention<Bahdanau>(sized(BahdanauOptions{.readout = 3}), 8);
  check_own_attention<Nematus>(sized(NematusOptions{.readout = 3}), 8);
  check_own_attention<Luong>(sized(LuongOptions{.layers = 1}), 4);
  check_own_attention<Seq2Seq>(general("bahdanau"), 8);
  nn::Parameters params(3);
  const nn::Scope scope(params);
  CHECK_ERROR(
      "Seq2Seq: attention is given, but the decoder has none",
      Seq2Seq(scope, general("sutskever"), nn::Attention(SquaredScore(scope / "attention", 4, 8))));
}

TEST_CASE("papers: begin and end are words of the search") {
  nn::Parameters params(3, DType::f64);
  const Bahdanau model(params, sized(BahdanauOptions{}));
  const text::Batch batch = text::make_batch(test::ragged_pairs(9, 8, 8), DType::f64);
  const Encoded encoded = model.encode(batch.source, batch.source_mask);
  const auto usual = search(model, encoded, {.max_length = 4})[0][0];
  auto state = model.start(encoded);
  const Tensor first = test::step_from(model, Tensor::of({3}, {5, 5, 5}), state).logits;
  const std::int32_t likeliest = argmax(first).to_vector<std::int32_t>()[0];
  const auto ended = search(model, encoded, {.max_length = 4, .begin = 5, .end = likeliest})[0][0];
  CHECK(ended.complete);
  CHECK(ended.words.empty());
  CHECK(usual.words != ended.words);
}

LuongOptions tiny() {
  return {.source_vocabulary = 9, .target_vocabulary = 8, .embedding = 3, .hidden = 4, .layers = 2};
}

const std::vector<text::Pair> pairs = {
    {{4, 5, 6, 7, 8}, {4, 5}}, {{8, 5}, {6, 7, 4}}, {{6, 4, 4}, {5}}};

void check_near(const std::string& what, const Tensor& actual, const Tensor& expected,
                double tolerance) {
  INFO(what);
  REQUIRE(actual.shape() == expected.shape());
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(std::abs(a[i] - e[i]) <= tolerance * (1 + std::abs(e[i])));
}

TEST_CASE("Luong: loss, weights and all gradients are those of a second implementation") {
  const Golden golden("luong");
  nn::Parameters params(1, DType::f64);
  const Luong model(params, tiny());
  for (const auto& [name, w] : params) {
    Tensor values = w.value();
    copy(golden[name], values);
  }
  const text::Batch batch{golden["source"], golden["source_mask"], golden["previous"],
                          golden["next"], golden["target_mask"]};
  const Tensor weights = force(model, batch).weights.value(), expected = golden["weights"];
  const double* mask = batch.target_mask.data<double>();
  for (Index i = 0; i < weights.size(); ++i) {
    const Index t = i / (5 * 3), b = i % 3;
    if (mask[t * 3 + b] == 0) continue;  // the decoder runs on over padding
    CHECK(std::abs(weights.data<double>()[i] - expected.data<double>()[i]) <= 1e-10);
  }
  const Var total = loss(model, batch);
  CHECK(std::abs(total.item() - golden.number("loss")) <= 1e-10);
  const Gradients gradients = backward(total);
  for (const auto& [name, w] : params)
    check_near("d_" + name, gradients[w], golden["d_" + name], 1e-10);
}

/// Trains a few sentences by heart; the final loss.
double learn(nn::Parameters& params, const Luong& model, int steps) {
  nn::Adam adam(params, {.rate = 1e-2});
  const text::Batch batch = text::make_batch(pairs);
  for (int step = 0; step < steps; ++step) adam.step(backward(loss(model, batch)));
  return loss(model, batch).item();
}

TEST_CASE("Luong: learns sentences by heart, and greedy and beam search write them") {
  nn::Parameters params(1);
  LuongOptions o = tiny();
  o.embedding = 8, o.hidden = 16;
  const Luong model(params, o);
  CHECK(learn(params, model, 300) < 0.05);
  const text::Batch batch = text::make_batch(pairs);
  for (Index beam : {1, 3}) {
    const auto found = search(model, model.encode(batch.source, batch.source_mask),
                              {.beam = beam, .max_length = 10});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      CHECK(found[i][0].words == pairs[i].target);
      const std::vector<double> totals = sum(found[i][0].weights, {1}).to_vector<double>();
      for (double total : totals) CHECK(total == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

}  // namespace
}  // namespace attune::models
