#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/any_model.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/tensor/check.hpp>

#include "models/decoders.hpp"
#include "models/wirings.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::AnyModel, models::AnyModelOptions;
using namespace test;

static_assert(models::WordModel<AnyModel>);

const models::Vocabularies kSizes{.source = 11, .target = 9};

AnyModelOptions sized(const char* name) {
  return models::model_options(name, {{"embedding", "5"},
                                      {"hidden", "6"},
                                      {"attention", "7"},
                                      {"readout", "6"},
                                      {"layers", "2"},
                                      {"dropout", "0.3"}});
}

text::Batch batch() { return text::make_batch(ragged_pairs(11, 9, 8)); }

/// Losses, gradients, hypotheses and forced scores of a model made by name and of its class.
template <class M, class Own>
void check_same(const char* name) {
  CAPTURE(name);
  const AnyModelOptions options = sized(name);
  Own own = std::get<Own>(options.own);
  own.source_vocabulary = kSizes.source, own.target_vocabulary = kSizes.target;
  nn::Parameters params(3), others(3);
  const AnyModel any(params, options, kSizes);
  const M model(others, own);
  scale_parameters(params, 3), scale_parameters(others, 3);
  REQUIRE(params.all().size() == others.all().size());
  const auto losses = [](const auto& all, const auto& f) {
    Random random(5);
    const nn::Training training(random);
    const Var loss = f();
    const Gradients gradients = backward(loss);
    std::vector<Tensor> values{loss.value()};
    for (const auto& [path, w] : all) values.push_back(gradients[w]);
    return values;
  };
  const auto expected = losses(others, [&] { return models::loss(model, batch()); });
  CHECK(std::ranges::equal(losses(params, [&] { return any.loss(batch()); }), expected, identical));
  CHECK(std::ranges::equal(losses(params, [&] { return models::loss(any, batch()); }), expected,
                           identical));
  const auto [source, mask] = text::make_source_batch(random_sentences({2, 5, 1}, 11, 6));
  const models::SearchOptions how{.beam = 3, .max_length = 7, .best = 3};
  const auto found = models::search(any, text::SourceBatch{source, mask}, how);
  const auto by_class = models::search(model, text::SourceBatch{source, mask}, how);
  for (std::size_t b = 0; b < found.size(); ++b)
    CHECK(std::ranges::equal(found[b], by_class[b], same));
  CHECK(std::ranges::equal(models::sample(any, any.encode(source, mask)),
                           models::sample(model, model.encode(source, mask)), same));
  CHECK(std::ranges::equal(models::force_decode(any, batch()), models::force_decode(model, batch()),
                           same));
}

TEST_CASE("AnyModel: by name it is the model of that class, to the bit") {
  check_same<models::Bahdanau, models::BahdanauOptions>("bahdanau");
  check_same<models::Nematus, models::NematusOptions>("nematus");
  check_same<models::Luong, models::LuongOptions>("luong");
  check_same<models::EncoderDecoder, models::EncoderDecoderOptions>("encoder-decoder");
  check_same<models::Sutskever, models::SutskeverOptions>("sutskever");
  check_same<models::Seq2Seq, models::Seq2SeqOptions>("seq2seq");
}

TEST_CASE("AnyModel: every option of every model survives the way through text") {
  for (const models::ModelKind& kind : models::model_kinds()) {
    CAPTURE(kind.name);
    AnyModelOptions options = models::model_options(kind.name);
    for (const auto& field : models::all_model_fields()) {
      CAPTURE(field.name);
      const std::string before = field.get(options);
      if (before.empty()) continue;  // another model's
      std::vector<std::string> values = field.choices;
      if (values.empty()) values = {"0.25", "3", "7"};  // a rate, or a whole number
      for (const std::string& value : values) {
        try {
          models::set(options, field.name, value);
        } catch (const Error&) {
          continue;
        }
        if (field.get(options) != before) break;
      }
      CHECK(field.get(options) != before);
    }
    const auto map = to_map(options);
    CHECK(map.at("model") == kind.name);
    CHECK(to_map(models::model_options_from(map)) == map);
  }
}

TEST_CASE("AnyModel: options that are not the model's are errors which say whose they are") {
  AnyModelOptions options = models::model_options("bahdanau");
  CHECK_ERROR(
      "model: 'perceptron' is not one of bahdanau, nematus, luong, encoder-decoder, sutskever, "
      "transformer, seq2seq",
      models::model_options("perceptron"));
  CHECK_ERROR("window: the model bahdanau has no such option, only luong, seq2seq",
              models::set(options, "window", "local-p"));
  CHECK_ERROR("colour: there is no such option of the model bahdanau",
              models::set(options, "colour", "red"));
  auto map = to_map(options);
  map.erase("hidden");
  CHECK_ERROR("options: there is no 'hidden'", models::model_options_from(map));
  map.erase("model");
  CHECK_ERROR("options: there is no 'model'", models::model_options_from(map));
  nn::Parameters params(1);
  options.name = "luong";
  CHECK_ERROR("AnyModel: the options are not those of the model luong",
              AnyModel(params, options, kSizes));
  options = models::model_options("sutskever");
  options.coverage_loss = 1;
  CHECK_ERROR("AnyModel: coverage is of attention, and this model has none",
              AnyModel(params, options, kSizes));
}

TEST_CASE("AnyModel: the fields of all models act on whichever it is") {
  const auto fields = models::all_model_fields();
  const auto field = [&](const char* name) {
    return *std::ranges::find(fields, name, [](const auto& f) { return f.name; });
  };
  AnyModelOptions luong = models::model_options("luong"), other = models::model_options("nematus");
  field("layers").set(luong, "1");
  CHECK(std::get<models::LuongOptions>(luong.own).layers == 1);
  CHECK(field("layers").get(other).empty());
  CHECK_FALSE(field("layers").has_effect(other));
  CHECK(field("layers").has_effect(luong));
  CHECK(field("layers").needs == "the model luong or sutskever");
  CHECK_FALSE(field("heads").has_effect(luong));
  CHECK(field("heads").needs == "score multi-head of the model luong or seq2seq");
  CHECK(field("longest").needs == "score location of the model luong or seq2seq");
  CHECK(field("hidden").needs.empty());
  CHECK(models::attends(other));
  CHECK_FALSE(models::attends(models::model_options("encoder-decoder")));
  CHECK(models::longest_source(luong) == 0);
  models::set(luong, "score", "location");
  CHECK(models::longest_source(luong) == 100);
}

TEST_CASE("AnyModel: label smoothing and the coverage loss are of training") {
  nn::Parameters params(3);
  AnyModelOptions options = models::model_options(
      "luong",
      {{"label-smoothing", "0.2"}, {"coverage-loss", "0.5"}, {"embedding", "5"}, {"hidden", "6"}});
  const AnyModel model(params, options, kSizes);
  CHECK(model.loss(batch()).item() == models::loss(model, batch()).item());
  Random random(1);
  const nn::Training training(random);
  CHECK(model.loss(batch()).item() ==
        models::loss(model, batch(), {.label_smoothing = 0.2, .coverage = 0.5}).item());
}

TEST_CASE("AnyModel: an ensemble of one is that model") {
  nn::Parameters params(3);
  const AnyModel one(params, sized("bahdanau"), kSizes), alone = models::ensemble_of({one});
  const auto [source, mask] = text::make_source_batch(random_sentences({2, 5, 1}, 11, 6));
  const text::SourceBatch sources{source, mask};
  const auto found = models::search(alone, sources), expected = models::search(one, sources);
  for (std::size_t b = 0; b < 3; ++b) CHECK(std::ranges::equal(found[b], expected[b], same));
}

TEST_CASE("AnyModel: a state of another model is an error") {
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(1)};
  const AnyModel a(params[0], sized("bahdanau"), kSizes), b(params[1], sized("luong"), kSizes);
  const auto [source, mask] = text::make_source_batch(random_sentences({2}, 11, 6));
  const auto state = a.start(a.encode(source, mask));
  CHECK_ERROR("AnyModel: a value of another model", b.select(state, Tensor::of({1}, {0})));
  CHECK_ERROR("AnyModel: a value of another model", b.select({}, Tensor::of({1}, {0})));
}

using models::AnyModel, models::ensemble_of;
using models::SearchOptions;
using text::Sentence;

const SearchOptions kOptions{
    .beam = 4, .max_length = 7, .length_penalty = 0.6, .coverage_penalty = 0.1, .best = 4};

TEST_CASE("Ensemble: of a model with itself it is the model") {
  const Translator t;
  const AnyModel twice = ensemble_of({AnyModel(t.model), AnyModel(t.model)});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5, 1}, 11, 6));
  const auto expected = models::search(t.model, t.model.encode(source, mask), kOptions);
  const auto found = models::search(twice, twice.encode(source, mask), kOptions);
  const auto drawn = models::sample(t.model, t.model.encode(source, mask), {.max_length = 7});
  const auto drawn_by_both = models::sample(twice, twice.encode(source, mask), {.max_length = 7});
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(drawn_by_both[b].words == drawn[b].words);
    REQUIRE(found[b].size() == expected[b].size());
    for (std::size_t i = 0; i < found[b].size(); ++i) {
      CHECK(found[b][i].words == expected[b][i].words);
      CHECK(std::abs(found[b][i].log_probability - expected[b][i].log_probability) < 1e-5);
      CHECK(test::difference(found[b][i].weights, expected[b][i].weights) < 1e-6);
    }
  }
}

TEST_CASE("Ensemble: the probabilities of every word are averaged") {
  const auto a = random_table(5, 1), b = random_table(5, 2), c = random_table(5, 3);
  const TableDecoder mean([=](std::int32_t source, const Words& words) {
    Probabilities p = a(source, words);
    const Probabilities q = b(source, words), r = c(source, words);
    for (std::size_t v = 0; v < p.size(); ++v) p[v] = (p[v] + q[v] + r[v]) / 3;
    return p;
  });
  const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}, {5}}}, DType::f64);
  const auto expected = models::search(mean, mean.encode(source, mask), kOptions);
  const AnyModel all = ensemble_of(
      {AnyModel(TableDecoder(a)), AnyModel(TableDecoder(b)), AnyModel(TableDecoder(c))});
  const auto found = models::search(all, all.encode(source, mask), kOptions);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (std::size_t i = 0; i < found[s].size(); ++i) {
      CHECK(found[s][i].words == expected[s][i].words);
      CHECK(near(found[s][i].log_probability, expected[s][i].log_probability));
    }
  }
}

/// A published model, for vocabularies of 11 and 9.
models::Seq2SeqOptions sized(const char* paper, Index hidden) {
  return wired(paper,
               {.source_vocabulary = 11, .target_vocabulary = 9, .embedding = 4, .hidden = hidden});
}

TEST_CASE("Ensemble: of several kinds of models; the weights are the mean of those that have any") {
  nn::Parameters params[3] = {nn::Parameters(1), nn::Parameters(2), nn::Parameters(3)};
  const AnyModel bahdanau(models::Seq2Seq(params[0], sized("bahdanau", 6)));
  const AnyModel luong(models::Seq2Seq(params[1], sized("luong", 6)));
  const AnyModel plain(models::Seq2Seq(params[2], sized("encoder-decoder", 5)));
  const AnyModel all = ensemble_of({bahdanau, luong, plain}), none = ensemble_of({plain, plain});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5}, 11, 6));
  const auto weights = [&, source = source, mask = mask](const auto& model) {
    auto state = model.start(model.encode(source, mask));
    return step_from(model, Tensor::of({2}, {1, 1}), state).weights;
  };
  CHECK(test::difference(weights(all), (weights(bahdanau) + weights(luong)) * 0.5) < 1e-6);
  CHECK_FALSE(weights(none).defined());
  CHECK(models::search(all, all.encode(source, mask), {.beam = 3, .max_length = 5}).size() == 2);
}

TEST_CASE("Ensemble: no models, and other vocabularies, are errors") {
  CHECK_ERROR("Ensemble: there is no model", ensemble_of({}));
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(2)};
  auto options = sized("luong", 6);
  const AnyModel luong(models::Seq2Seq(params[0], options));
  options.target_vocabulary = 10;
  const AnyModel larger(models::Seq2Seq(params[1], options));
  const AnyModel both = ensemble_of({luong, larger});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2}, 11, 6));
  const text::SourceBatch batch{source, mask};
  CHECK_ERROR(
      "Ensemble: another's (T, B, V) is (1, 1, 10), but V = 9 in the first model's probabilities",
      models::search(both, batch));
}

}  // namespace
