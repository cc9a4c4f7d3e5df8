// Properties of the models of papers with any options. Those of batches, states and training are
// also tested for the Transformer.
#include <cmath>
#include <span>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/by_name.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/errors.hpp>

#include "models/decoders.hpp"
#include "nn/own_cell.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"
#include "support/threads_scope.hpp"

namespace attune::models {
namespace {

using test::force, test::Forced;

/// A model by name and options; the default vocabulary sizes are 9 and 8.
struct Made {
  ModelOptions options;
  nn::Parameters params;
  NamedModel model;

  explicit Made(const std::string& text, const std::string& sizes = "", std::uint64_t seed = 4,
                DType dtype = DType::f64, Vocabularies vocabularies = {9, 8})
      : options(test::options_from(text,
                                   "embedding=6 hidden=4 readout=6 attention=10 heads=2 "
                                   "longest=12 half-width=1 attention-heads=2 inner=5 " +
                                       sizes)),
        params(seed, dtype),
        model(params, options, vocabularies) {}

  bool attends() const { return model_kind(options.name).attends; }
};

const std::vector<std::string> kPapers = {"bahdanau", "nematus", "luong", "encoder-decoder",
                                          "sutskever"};

/// The models as published, and variants that cover every other option.
const std::vector<std::string> kModels = [] {
  std::vector<std::string> all = kPapers;
  for (const std::string score : {"dot", "concat", "cosine", "multi-head"}) {
    all.push_back("luong window=local-p score=" + score);
    all.push_back("bahdanau normalizer=sparsemax cell=lstm score=" + score);
  }
  all.insert(
      all.end(),
      {"luong score=scaled-dot window=local-m cell=gru", "bahdanau score=location encoder-layers=2",
       "nematus score=location-aware cell=lstm tied=target-output",
       "bahdanau coverage=summed cell=gru-reset-before tied=target-output",
       "luong coverage=summed window=local-p reading=bidirectional input-feeding=no",
       "luong score=additive encoder-layers=1 decoder-layers=3", "encoder-decoder cell=lstm",
       "sutskever layers=2 cell=gru", "transformer",
       "transformer norm=after nonlinearity=relu tied=none"});
  return all;
}();

/// Calls f(made) for all of them.
template <class F>
void for_each_model(F f) {
  for (const std::string& text : kModels) {
    CAPTURE_BINDING(text);
    Made made(text);
    f(made);
  }
}

text::Batch ragged() { return text::make_batch(test::ragged_pairs(9, 8, 8)); }

// ---- Gradients

constexpr const char* kTiny =
    "embedding=3 hidden=2 attention=4 readout=5 longest=5 filters=2 radius=1";

/// Gradcheck of logits and weights of a ragged batch, alternating initial parameters and 3 times
/// these. No gradient may be zero.
void check_gradients(const std::string& text) {
  CAPTURE_BINDING(text);
  static int count = 0;
  const double scale = ++count % 2 == 0 ? 1 : 3;
  CHECK(test::gradcheck_off_kinks(12, 40, [&](std::uint64_t seed) {
    Made made(text, kTiny, seed, DType::f64, {6, 7});
    test::scale_parameters(made.params, scale);
    const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 3));
    const auto run = [&] {
      const auto [logits, weights] = force(made.model, batch);
      return test::flat({logits, weights});
    };
    return gradcheck(made.params, run, {.step = 1e-4});
  }));
}

/// Calls f(text) with every combination of values of the axes: {"cell=gru", "cell=lstm"}, ...
template <class F>
void for_each_combination(const std::string& text, std::span<const std::vector<std::string>> axes,
                          const F& f) {
  if (axes.empty()) return f(text);
  for (const std::string& value : axes.front())
    for_each_combination(text + " " + value, axes.subspan(1), f);
}

const std::vector<std::string> kCells = {"cell=gru", "cell=gru-reset-before", "cell=lstm"};
const std::vector<std::string> kWindows = {"window=global", "window=local-m", "window=local-p"};

/// Every score, and the second form of concat.
std::vector<std::string> scores() {
  std::vector<std::string> all;
  for (const nn::ScoreKind& kind : nn::score_kinds())
    all.push_back(fmt::format("score={}", kind.name));
  all.push_back("score=concat concat-form=identity");
  return all;
}

TEST_CASE("papers: gradients of every score x window x model x cell are central differences") {
  const std::vector<std::string> axes[] = {scores(), kWindows, kCells};
  for (const std::string model : {"bahdanau", "nematus", "luong encoder-layers=1 decoder-layers=1"})
    for_each_combination(model, axes, check_gradients);
}

TEST_CASE("papers: gradients of every other option are central differences") {
  const struct {
    const char* model;
    std::vector<std::vector<std::string>> axes;
  } cases[] = {{"luong",
                {{"reading=forward", "reading=backward", "reading=bidirectional"},
                 {"input-feeding=yes", "input-feeding=no"},
                 {"encoder-layers=1 decoder-layers=2", "encoder-layers=2 decoder-layers=1"},
                 {"cell=lstm", "cell=gru"}}},
               {"luong encoder-layers=1 coverage=summed", {scores()}},
               {"bahdanau coverage=summed", {kWindows}},
               {"bahdanau encoder-layers=2", {kCells}},
               {"nematus encoder-layers=2", {kCells}},
               {"luong normalizer=sparsemax", {kWindows}},
               {"bahdanau normalizer=sparsemax", {kWindows}},
               {"encoder-decoder", {kCells}},
               {"sutskever", {kCells, {"layers=1", "layers=2"}}}};
  for (const auto& [model, axes] : cases) for_each_combination(model, axes, check_gradients);
}

TEST_CASE("papers: gradients of the training loss, with tied embeddings, are central differences") {
  for (const std::string& paper : kPapers) {
    for (const std::string tied : {"none", "target-output", "all"}) {
      const std::string text = fmt::format("{} tied={} dropout=0.3", paper, tied);
      CAPTURE_BINDING(text);
      CHECK(test::gradcheck_off_kinks(11, 40, [&](std::uint64_t seed) {
        Made made(text, "embedding=4 hidden=4 readout=4 encoder-layers=2 coverage=summed", seed,
                  DType::f64, {7, 7});
        test::scale_parameters(made.params, 3);
        const text::Batch batch = text::make_batch(test::ragged_pairs(7, 7, 3));
        const auto loss = [&] {
          Random random(5);  // the same elements are dropped every time
          const nn::Training training(random);
          return models::loss(made.model, batch,
                              {.label_smoothing = 0.2, .coverage = made.attends() ? 0.7 : 0.0});
        };
        return gradcheck(made.params, loss, {.step = 1e-4, .allow_zero = true});
      }));
    }
  }
}

// ---- Batches, steps and states

/// The loss, summed over tokens.
Var total_loss(const NamedModel& model, std::span<const text::Pair> pairs) {
  const text::Batch batch = text::make_batch(pairs);
  return models::loss(model, batch) * sum(batch.target_mask).item();
}

TEST_CASE("papers: a padded batch gives the loss and gradients of its sentences one by one") {
  for_each_model([&](const Made& made) {
    const std::vector<text::Pair> pairs = test::ragged_pairs(9, 8, 8);
    const Var together = total_loss(made.model, pairs);
    Var apart = total_loss(made.model, std::span(pairs).first(1));
    for (std::size_t i = 1; i < pairs.size(); ++i)
      apart = apart + total_loss(made.model, std::span(pairs).subspan(i, 1));
    CHECK(std::abs(together.item() - apart.item()) <= 1e-12 * std::abs(apart.item()));
    const Gradients a = backward(together), b = backward(apart);
    for (const auto& [path, w] : made.params) {
      CAPTURE_BINDING(path);
      CHECK(difference(a[w], b[w]) < 1e-12);
    }
  });
}

TEST_CASE("papers: single steps on given tokens equal unroll, also for selected columns") {
  for_each_model([&](const Made& made) {
    const NamedModel& model = made.model;
    const text::Batch batch = ragged();
    const Forced forced = force(model, batch);
    REQUIRE(forced.weights.defined() == made.attends());
    auto state = model.start(model.encode(batch.source, batch.source_mask));
    for (Index t = 0; t < batch.previous.dim(0); ++t) {
      if (t == 2) {  // with repetition, and as many columns again with others before and after
        state = model.select(state, Tensor::of({4}, {2, 0, 0, 1}));
        state = model.select(state, Tensor::of({3}, {1, 3, 0}));
      }
      const test::OneStep step = test::step_from(model, batch.previous[t], state);
      CHECK(difference(step.logits, forced.logits.value()[t]) < 1e-13);
      if (made.attends()) CHECK(difference(step.weights, forced.weights.value()[t]) < 1e-13);
    }
  });
}

/// Trains on copies of random sentences until some tokens are predicted with confidence.
void train(Made& made, int steps) {
  std::vector<text::Pair> pairs;
  for (const text::Sentence& s : test::random_sentences({3, 5, 2, 4, 1, 5}, 8, 1, 4))
    pairs.push_back({s, s});
  const text::Batch batch = text::make_batch(pairs);
  nn::Adam adam(made.params, {.rate = 1e-2});
  for (int i = 0; i < steps; ++i) adam.step(backward(models::loss(made.model, batch)));
}

TEST_CASE("papers: every model, with every cell, learns a few sentences") {
  const std::vector<std::string> axes[] = {kPapers, kCells};
  for_each_combination("", axes, [&](const std::string& text) {
    CAPTURE_BINDING(text);
    Made made(text, "embedding=12 hidden=16 readout=16 encoder-layers=1 decoder-layers=1", 1,
              DType::f32);
    train(made, 250);
    const auto sentences = test::random_sentences({3, 5, 2, 4, 1, 5}, 8, 1, 4);
    const auto found = translate(made.model, sentences, {.how = SearchOptions{.beam = 3}});
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      const Hypothesis& h = found[i].front();
      CHECK(h.words == sentences[i]);
      CHECK(h.score > -0.1 * static_cast<double>(h.words.size() + 1));
      if (!made.attends()) continue;
      for (const double total : sum(h.weights, {1}).to_vector<double>())
        CHECK(total == doctest::Approx(1).epsilon(1e-5));
    }
  });
}

/// A model with a cell of one's own against the same cell of the library: loss, gradients, search.
template <class M, Cell cell>
void compare_with_own_cell() {
  CAPTURE(M::name);
  CAPTURE(nn::name_of(cell));
  typename M::Options options;
  options.source_vocabulary = options.target_vocabulary = 9;
  options.embedding = options.hidden = 6;
  nn::Parameters fused(4, DType::f64), own(4, DType::f64);
  options.cell = cell;
  const Model model = M(fused, options);
  options.cell = nn::own_cell<test::PlainCell<cell>>;
  const Model with_own = M(own, options);
  test::scale_parameters(own, 3);
  test::copy_parameters(own, fused);
  const text::Batch batch = text::make_batch(test::ragged_pairs(9, 9, 8));
  const Var a = loss(model, batch), b = loss(with_own, batch);
  CHECK(std::abs(a.item() - b.item()) < 1e-12);
  const Gradients d_a = backward(a), d_b = backward(b);
  for (const auto& [path, w] : own) {
    CAPTURE_BINDING(path);
    CHECK(difference(d_a[fused[path]], d_b[w]) < 1e-12);
  }
  const auto sources = test::random_sentences({3, 5, 2}, 9, 1, 4);
  const SearchOptions how{.beam = 3, .max_length = 6};
  const auto found = translate(model, sources, {.how = how}),
             together = translate(with_own, sources, {.how = how}),
             alone = translate(with_own, sources, {.how = how, .sentences = 1});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    CHECK(together[i][0].words == found[i][0].words);
    CHECK(test::same(together[i][0], alone[i][0]));
    CHECK(test::near(together[i][0].log_probability, found[i][0].log_probability));
  }
}

TEST_CASE("papers: a cell of one's own equals the same cell of the library") {
  compare_with_own_cell<Bahdanau, Cell::gru>();
  compare_with_own_cell<Bahdanau, Cell::lstm>();
  compare_with_own_cell<Nematus, Cell::gru>();
  compare_with_own_cell<Luong, Cell::lstm>();
  compare_with_own_cell<EncoderDecoder, Cell::gru_reset_before>();
  compare_with_own_cell<Sutskever, Cell::lstm>();
}

TEST_CASE("papers: options of a cell of one's own cannot be saved, but are valid") {
  LuongOptions options{.cell = nn::own_cell<test::PlainCell<Cell::gru>>};
  CHECK_NOTHROW(options_of(options).validate(options));
  CHECK_ERROR("cell: a cell of your own has no name: save only its parameters", to_map(options));
  set_from(options, to_map(LuongOptions{}));
  CHECK(options.cell == nn::Cell::lstm);
}

TEST_CASE("papers: in steady state training does not allocate from the system") {
  for (const std::string& paper : kPapers) {
    CAPTURE_BINDING(paper);
    Made made(paper, "", 5, DType::f32);
    nn::Adam adam(made.params);
    const text::Batch batch = ragged();
    const auto step = [&] { adam.step(backward(models::loss(made.model, batch))); };
    for (int i = 0; i < 3; ++i) step();
    const std::size_t before = buffer_statistics().allocations;
    for (int i = 0; i < 5; ++i) step();
    CHECK(buffer_statistics().allocations == before);
  }
}

/// Weights after training with dropout on a batch that is large enough for several tiles.
std::vector<Tensor> weights_after_training(const std::string& paper, std::uint64_t seed,
                                           int threads) {
  const test::ThreadsScope guard(threads);
  std::vector<Index> lengths;
  for (Index i = 0; i < 48; ++i) lengths.push_back(1 + i % 7);
  const auto sources = test::random_sentences(lengths, 300, 1);
  const auto targets = test::random_sentences(lengths, 280, 2);
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  const text::Batch batch = text::make_batch(pairs);
  Made made(paper, "embedding=40 hidden=64 attention=48 readout=56 dropout=0.2", seed, DType::f32,
            {300, 280});
  nn::Adam adam(made.params);
  Random random(seed);
  for (int i = 0; i < 8; ++i) {
    const nn::Training training(random);
    Gradients gradients = backward(loss(made.model, batch));
    nn::clip_by_global_norm(gradients, 1);
    adam.step(gradients);
  }
  std::vector<Tensor> weights;
  for (const auto& [name, w] : made.params) weights.push_back(w.value().clone());
  return weights;
}

TEST_CASE("papers: weights are reproducible bit for bit, with one thread or two") {
  for (const std::string paper :
       {"bahdanau", "nematus", "luong", "encoder-decoder", "sutskever", "transformer tied=none"}) {
    CAPTURE_BINDING(paper);
    const auto one = weights_after_training(paper, 1, 1);
    CHECK(std::ranges::equal(one, weights_after_training(paper, 1, 1), identical));
    CHECK(std::ranges::equal(one, weights_after_training(paper, 1, 2), identical));
    const auto other = weights_after_training(paper, 2, 1);
    for (std::size_t i = 0; i < one.size(); ++i) CHECK_FALSE(identical(one[i], other[i]));
  }
}

// ---- Losses and options

TEST_CASE("papers: the loss is smoothed cross-entropy of unroll's logits plus coverage loss") {
  for (const std::string& paper : kPapers) {
    CAPTURE_BINDING(paper);
    const Made made(paper);
    const text::Batch batch = ragged();
    const Forced forced = force(made.model, batch);
    const Tensor logits = forced.logits.value();
    double plain = 0, smoothed = 0, coverage = 0, words = 0;
    for (Index b = 0; b < 3; ++b) {
      std::vector<double> covered(4, 0);
      for (Index t = 0; t < 4; ++t) {
        if (batch.target_mask[t][b].item() == 0) continue;
        const std::vector<double> row = logits[t][b].to_vector<double>();
        double total = 0;
        for (double x : row) total += std::exp(x);
        const double target =
            std::log(total) - row[static_cast<std::size_t>(batch.next[t][b].item())];
        plain += target, smoothed += 0.7 * target, ++words;
        for (const std::size_t v : {2, 4, 5, 6, 7})  // `</s>` and words
          smoothed += 0.3 / 5 * (std::log(total) - row[v]);
        for (Index s = 0; s < 4 && made.attends(); ++s) {
          const double a = forced.weights.value()[t][s][b].item();
          coverage += std::min(a, covered[static_cast<std::size_t>(s)]);
          covered[static_cast<std::size_t>(s)] += a;
        }
      }
    }
    CHECK(words == 7);  // 3 + 0 + 1, and </s> three times
    CHECK(std::abs(loss(made.model, batch).item() - plain / words) < 1e-13);
    const double weight = made.attends() ? 2 : 0;
    const Var found = loss(made.model, batch, {.label_smoothing = 0.3, .coverage = weight});
    CHECK(std::abs(found.item() - (smoothed + weight * coverage) / words) < 1e-12);
  }
}

TEST_CASE("papers: each dropout rate applies in training only, and depends on the seed only") {
  const text::Batch batch = ragged();
  const auto in_training = [&](const Made& made, std::uint64_t seed) {
    Random random(seed);
    const nn::Training training(random);
    return loss(made.model, batch).item();
  };
  for (const ModelKind& kind : model_kinds()) {
    const std::string name = kind.name, one = "layers=1 encoder-layers=1 decoder-layers=1";
    ModelOptions options = model_options(name);
    std::string none = name + " dropout=0.5";  // but of nothing: there is one layer
    const Made plain(name, one);
    const double without = loss(plain.model, batch).item();
    CHECK(in_training(plain, 1) == without);
    for (const Option& rate : options_of(options)) {
      if (!rate.name.ends_with("dropout")) continue;
      if (rate.name != "dropout") none += " " + rate.name + "=0";
      const std::string text = fmt::format("{} {}=0.5", name, rate.name);
      CAPTURE_BINDING(text);
      const Made made(text, one + " dropout=0");
      CHECK(loss(made.model, batch).item() == without);
      CHECK(in_training(made, 1) != without);
      CHECK(in_training(made, 1) == in_training(made, 1));
      CHECK(in_training(made, 1) != in_training(made, 2));
    }
    CHECK((in_training(Made(none, one), 1) == without) == (name != "transformer"));
  }
}

TEST_CASE("papers: tied embeddings are one parameter") {
  for (const std::string& paper : kPapers) {
    CAPTURE_BINDING(paper);
    const auto made = [&](const std::string& tied) {
      return Made(paper + " tied=" + tied, "embedding=4 readout=4", 1, DType::f32, {8, 8});
    };
    const Made none = made("none"), output = made("target-output"), all = made("all");
    CHECK(output.params.count() == none.params.count() - 8 * 4);
    CHECK(all.params.count() == none.params.count() - 2 * 8 * 4);
    CHECK_FALSE(output.params.contains("output.W"));
    CHECK_FALSE(all.params.contains("source.E"));
  }
}

TEST_CASE("papers: each direction of the encoder has size H / 2 for direct scores") {
  const auto hidden = [](const std::string& text) {
    return Made(text).params["encoder.layer1.forward.W_h"].dim(0);
  };
  CHECK(hidden("bahdanau") == 4);
  CHECK(hidden("nematus score=cosine") == 2);
  CHECK(Made("luong score=dot").params["encoder.layer1.W_h"].dim(0) == 4);
}

TEST_CASE("papers: errors name options that contradict each other") {
  const auto error = [](const std::string& text, Vocabularies sizes = {9, 8}) {
    return error_of([&] { Made(text, "", 4, DType::f64, sizes); });
  };
  CHECK(error("bahdanau tied=target-output readout=5") ==
        "tied: a tied output layer requires a readout of the embedding size 6, not 5");
  CHECK(error("luong tied=target-output") ==
        "tied: a tied output layer requires a readout of the embedding size 6, not 4");
  CHECK(error("nematus tied=all") == "tied: all requires equal vocabulary sizes, not 9 and 8");
  CHECK(error("luong reading=bidirectional score=dot") ==
        "score: dot requires a state and annotations of equal size, not 4 and 8: use general or "
        "another score with parameters");
  CHECK(error("sutskever", {0, 8}) == "Embedding: vocabulary = 0 is less than 1, in source");
  CHECK(error("luong", {9, -3}) == "Embedding: vocabulary = -3 is less than 1, in target");
  const auto unchecked = [](BahdanauOptions options) {
    options.source_vocabulary = options.target_vocabulary = 9;
    nn::Parameters params;
    return error_of([&] { Nematus(params, options); });
  };
  CHECK(unchecked({.hidden = 0}) == "hidden: '0' is not a whole number from 1 to 65536");
  CHECK(unchecked({.encoder_layers = 65}) ==
        "encoder-layers: '65' is not a whole number from 1 to 64");
  CHECK(unchecked({.readout_dropout = 1}) ==
        "readout-dropout: '1' is not a number from -1 to 0.99");
  // Names have "_" or "-": compilers check the options and make the score in different orders.
  CHECK(unchecked({.score = {.kind = "bilinear"}})
            .starts_with("score: 'bilinear' is not one of additive, dot, scaled"));
}

TEST_CASE("papers: a model's options keep the names that they were given") {
  nn::Parameters params;
  std::string given = "a name that is stored outside of the string object";
  LuongOptions options{.source_vocabulary = 9, .target_vocabulary = 9, .embedding = 4, .hidden = 4};
  options.score.kind = given.replace(0, given.size(), "general");
  const Luong model(params, options);
  given = "dot";
  CHECK(to_map(model.options())["score"] == "general");
}

TEST_CASE("papers: a token id out of range is an error") {
  const Made bahdanau("bahdanau");
  for (const text::Pair& pair : {text::Pair{{9}, {3}}, {{5}, {8}}})
    CHECK_THROWS_AS(loss(bahdanau.model, text::make_batch(std::span(&pair, 1))), Error);
}

// ---- Custom attention

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

template <class Model>
void check_own_attention(Index memory) {
  typename Model::Options options;
  options.source_vocabulary = 9, options.target_vocabulary = 8;
  options.embedding = 5, options.hidden = 4;
  nn::Parameters params(3, DType::f64);
  const nn::Scope scope(params);
  const Model model(scope, options, nn::Attention(SquaredScore(scope / "attention", 4, memory)));
  CHECK(params.contains("attention.W_2"));
  CHECK_FALSE(params.contains("attention.W_a"));
  test::scale_parameters(params, 3);
  const Gradients gradients = backward(loss(model, ragged()));
  CHECK(sum_of_squares(gradients[params["attention.W_2"]]) > 0);
}

TEST_CASE("papers: every model with attention takes custom attention") {
  check_own_attention<Bahdanau>(8);
  check_own_attention<Nematus>(8);
  check_own_attention<Luong>(4);
}

}  // namespace
}  // namespace attune::models
