#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/by_name.hpp>
#include <attune/models/ensemble.hpp>
#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::Model, models::ModelOptions, models::NamedModel;
using namespace test;

static_assert(models::WordModel<models::Luong>);
static_assert(models::Decoder<models::LuongDecoder> && !models::WordModel<models::LuongDecoder>);
// A step or a source in the place of a state does not compile.
template <class X>
concept Continues = requires(const Model& model, const Tensor& previous, const X& x) {
  model.step(previous, x);
};
static_assert(Continues<Model::State>);
static_assert(!Continues<Model::Step> && !Continues<Model::Source> && !Continues<Var>);

const models::Vocabularies kSizes{.source = 11, .target = 9};

ModelOptions sized(const std::string& text) {
  return options_from(text,
                      "embedding=5 hidden=6 attention=7 readout=6 layers=2 attention-heads=2 "
                      "inner=5 dropout=0.3");
}

text::Batch batch() { return text::make_batch(ragged_pairs(11, 9, 8)); }

/// Compares losses, gradients, hypotheses and forced scores of NamedModel and of the model's class.
template <class M>
void check_same() {
  INFO(std::string(M::name));
  const ModelOptions options = sized(M::name);
  auto own = std::get<typename M::Options>(options.own);
  own.source_vocabulary = kSizes.source, own.target_vocabulary = kSizes.target;
  nn::Parameters params(3), others(3);
  const NamedModel any(params, options, kSizes);
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

TEST_CASE("NamedModel: equals the model of the named class bit for bit") {
  check_same<models::Bahdanau>();
  check_same<models::Nematus>();
  check_same<models::Luong>();
  check_same<models::EncoderDecoder>();
  check_same<models::Sutskever>();
  check_same<models::Transformer>();
}

TEST_CASE(
    "NamedModel: every option of every model survives the way through text, and refuses others") {
  for (const models::ModelKind& kind : models::model_kinds()) {
    CAPTURE(kind.name);
    ModelOptions options = models::model_options(kind.name);
    const auto& table = options_of(options);
    for (const models::Option& option : table) {
      CAPTURE(option.name);
      CHECK_FALSE(option.help.empty());
      const std::string before = table.get(options, option);
      std::vector<std::string> values = option.choices;
      if (values.empty()) values = {option.name.ends_with("dropout") ? "0.25" : "0.5", "1", "3"};
      for (const std::string& value : values) {
        if (error_of([&] { table.set(options, option, value); }) != "no error")
          continue;  // a whole number
        CHECK(table.get(options, option) == value);
        if (value != before) break;
      }
      CHECK(table.get(options, option) != before);
      for (const std::string bad : {"", "foo", "-2", "nan", "1x"})
        CHECK(error_of([&] { table.set(options, option, bad); }).starts_with(option.name + ": "));
    }
    const auto map = to_map(options);
    CHECK(map.size() == table.size());
    ModelOptions back = models::model_options(kind.name);
    set_from(back, map);
    CHECK(to_map(back) == map);
  }
}

TEST_CASE("NamedModel: an option of other models is an error that names these models") {
  ModelOptions options = models::model_options("bahdanau");
  CHECK_ERROR(
      "model: 'perceptron' is not one of bahdanau, nematus, luong, encoder-decoder, sutskever, "
      "transformer",
      models::model_options("perceptron"));
  CHECK_ERROR("input-feeding: the model bahdanau has no such option, unlike luong",
              models::set(options, "input-feeding", "yes"));
  CHECK_ERROR("layers: the model bahdanau has no such option, unlike sutskever",
              models::set(options, "layers", "2"));
  CHECK_ERROR("colour: the model bahdanau has no such option",
              models::set(options, "colour", "red"));
  CHECK_ERROR("window: 'local' is not one of global, local-m, local-p",
              models::set(options, "window", "local"));
  CHECK_ERROR("hidden: '0' is not a whole number from 1 to 65536",
              models::set(options, "hidden", "0"));
  models::set(options, "score", "scaled-dot");
  models::set(options, "score", "scaled_dot");
  CHECK(std::get<models::BahdanauOptions>(options.own).score.kind == "scaled_dot");
  auto map = to_map(options);
  map.erase("hidden");
  CHECK_ERROR("options: 'hidden' is missing", set_from(options, map));
  nn::Parameters params(1);
  options.name = "luong";
  CHECK_ERROR("model: the options belong to another model than luong",
              NamedModel(params, options, kSizes));
  options = models::model_options("sutskever");
  options.coverage_loss = 1;
  CHECK_ERROR("model: a coverage loss requires a model with attention",
              NamedModel(params, options, kSizes));
}

TEST_CASE("NamedModel: an option names the setting that it requires") {
  ModelOptions options = models::model_options("luong");
  const auto option = [&](const char* name) { return *models::find(options_of(options), name); };
  const auto has_effect = [&](const char* name) {
    return options_of(options).has_effect(options, option(name));
  };
  CHECK_FALSE(has_effect("heads"));
  CHECK(option("heads").needs == "score multi-head");
  CHECK(option("half-width").needs == "a window");
  CHECK(option("hidden").needs.empty());
  CHECK(models::longest_source(options) == 0);
  models::set(options, "score", "location");
  models::set(options, "window", "local-m");
  CHECK(has_effect("longest"));
  CHECK(has_effect("half-width"));
  CHECK(models::longest_source(options) == 100);
  CHECK(models::longest_source(models::model_options("transformer")) == 0);
}

TEST_CASE("NamedModel: label smoothing and coverage loss apply in training mode only") {
  nn::Parameters params(3);
  const NamedModel model(
      params, options_from("luong label-smoothing=0.2 coverage-loss=0.5", "embedding=5 hidden=6"),
      kSizes);
  CHECK(model.loss(batch()).item() == models::loss(model, batch()).item());
  Random random(1);
  const nn::Training training(random);
  CHECK(model.loss(batch()).item() ==
        models::loss(model, batch(), {.label_smoothing = 0.2, .coverage = 0.5}).item());
}

TEST_CASE("loss: without a mask, the coverage loss covers all steps") {
  nn::Parameters params(3);
  const NamedModel model(params, sized("luong"), kSizes);
  const text::Batch some = batch();
  const auto loss = [&](const Mask& mask) {
    return models::loss(model, model.encode(some.source, some.source_mask),
                        models::Target{some.previous, some.next, mask}, {.coverage = 0.5})
        .item();
  };
  CHECK(loss({}) == loss(ones(some.next.shape())));
}

/// The loss with everything that depends on masks, of `masked` with masks of that dtype.
Var masked_loss(const NamedModel& model, text::Batch masked, DType dtype) {
  masked.source_mask = masked.source_mask.to(dtype);
  masked.target_mask = masked.target_mask.to(dtype);
  models::LossOptions options;
  if (models::model_kind(model.options().name).attends) {
    options.coverage = 0.5;
    options.guide.alignment = models::alignment_guide({{{{0, 0}, {1, 0}}, {}, {{0, 0}}}}, masked);
  }
  return models::loss(model, masked, options);
}

TEST_CASE("NamedModel: masks of any dtype, and an empty source in a batch") {
  for (const models::ModelKind& kind : models::model_kinds()) {
    INFO(std::string(kind.name));
    nn::Parameters params(3);
    const NamedModel model(params, sized(kind.name), kSizes);
    text::Batch some = batch();
    const double expected = masked_loss(model, some, DType::f32).item();
    for (const DType dtype : {DType::f64, DType::i32})
      CHECK(masked_loss(model, some, dtype).item() == doctest::Approx(expected));
    some.source_mask = mask_of(4, {2, 0, 1}).to(DType::f32);
    const Var loss = masked_loss(model, some, DType::f32);
    CHECK(std::isfinite(loss.item()));
    CHECK(std::isfinite(backward(loss).global_norm()));
  }
}

TEST_CASE("NamedModel: a state of another model is an error") {
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(1)};
  const NamedModel a(params[0], sized("bahdanau"), kSizes), b(params[1], sized("luong"), kSizes);
  const auto [source, mask] = text::make_source_batch(random_sentences({2}, 11, 6));
  const auto state = a.start(a.encode(source, mask));
  const test::TableDecoder::Source other{source, mask};
  CHECK_ERROR("Model: the source or decoder state is one of another class of model",
              b.select(state, Tensor::of({1}, {0})));
  CHECK_ERROR("Model: the source or decoder state is one of another class of model",
              b.select({}, Tensor::of({1}, {0})));
  CHECK_ERROR("Model: the source or decoder state is one of another class of model",
              a.start(other));
}

// ---- Ensembles

using models::ensemble_of;

const models::SearchOptions kOptions{
    .beam = 4, .max_length = 7, .length_penalty = 0.6, .coverage_penalty = 0.1, .best = 4};

TEST_CASE("Ensemble: of two equal models equals one of them") {
  const Translator t;
  const Model one = ensemble_of({t.model});
  const Model twice = ensemble_of({t.model, t.model});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5, 1}, 11, 6));
  const auto expected = models::search(t.model, t.model.encode(source, mask), kOptions);
  const auto found_by_one = models::search(one, one.encode(source, mask), kOptions);
  const auto found = models::search(twice, twice.encode(source, mask), kOptions);
  const auto drawn = models::sample(t.model, t.model.encode(source, mask), {}, {.max_length = 7});
  const auto drawn_by_both =
      models::sample(twice, twice.encode(source, mask), {}, {.max_length = 7});
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(std::ranges::equal(found_by_one[b], expected[b], same));
    CHECK(drawn_by_both[b].words == drawn[b].words);
    REQUIRE(found[b].size() == expected[b].size());
    for (std::size_t i = 0; i < found[b].size(); ++i) {
      CHECK(found[b][i].words == expected[b][i].words);
      CHECK(std::abs(found[b][i].log_probability - expected[b][i].log_probability) < 1e-5);
      CHECK(difference(found[b][i].weights, expected[b][i].weights) < 1e-6);
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
  const auto [source, mask] = text::make_source_batch({{text::Sentence{4, 3, 3}, {5}}});
  const auto expected = models::search(mean, mean.encode(source, mask), kOptions);
  const Model all = ensemble_of({TableDecoder(a), TableDecoder(b), TableDecoder(c)});
  const auto found = models::search(all, all.encode(source, mask), kOptions);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (std::size_t i = 0; i < found[s].size(); ++i) {
      CHECK(found[s][i].words == expected[s][i].words);
      CHECK(near(found[s][i].log_probability, expected[s][i].log_probability));
    }
  }
}

TEST_CASE("Ensemble: a log-probability below the smallest float is finite") {
  nn::Parameters params(3);
  const NamedModel model(params, sized("luong"), kSizes);
  test::scale_parameters(params, 1000);
  const auto expected = models::force_decode(model, batch()),
             found = models::force_decode(ensemble_of({model, model}), batch());
  CHECK(expected[0].log_probability < -1000);
  for (std::size_t b = 0; b < found.size(); ++b)
    CHECK(found[b].log_probability == doctest::Approx(expected[b].log_probability));
}

TEST_CASE("Ensemble: of different models; weights are averaged over models with attention") {
  nn::Parameters params[3] = {nn::Parameters(1), nn::Parameters(2), nn::Parameters(3)};
  const NamedModel bahdanau(params[0], sized("bahdanau"), kSizes);
  const NamedModel luong(params[1], sized("luong score=multi-head attention=8 heads=2"), kSizes);
  const NamedModel plain(params[2], sized("encoder-decoder hidden=5"), kSizes);
  const Model all = ensemble_of({bahdanau, luong, plain}), none = ensemble_of({plain, plain});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5}, 11, 6));
  const auto weights = [&, source = source, mask = mask](const auto& model) {
    auto state = model.start(model.encode(source, mask));
    return step_from(model, Tensor::of({2}, {1, 1}), state).weights;
  };
  CHECK(difference(weights(all), (weights(bahdanau) + weights(luong)) * 0.5) < 1e-6);
  CHECK_FALSE(weights(none).defined());
  CHECK(models::search(all, all.encode(source, mask), {.beam = 3, .max_length = 5}).size() == 2);
}

TEST_CASE("Ensemble: no models, and different vocabularies, are errors") {
  CHECK_ERROR("Ensemble: there is no model", ensemble_of({}));
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(2)};
  const NamedModel luong(params[0], sized("luong"), kSizes);
  const NamedModel larger(params[1], sized("luong"), {.source = 11, .target = 10});
  const Model both = ensemble_of({luong, larger});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2}, 11, 6));
  const text::SourceBatch batch{source, mask};
  CHECK_ERROR("Ensemble: another's (..., V) is (1, 10), but V = 9 in the first model's logits",
              models::search(both, batch));
}

}  // namespace
