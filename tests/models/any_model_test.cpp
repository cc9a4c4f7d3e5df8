#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/any_model.hpp>
#include <attune/models/ensemble.hpp>
#include <attune/models/forced.hpp>
#include <attune/models/nematus.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/tensor/check.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::AnyModel, models::AnyModelOptions;
using namespace test;

static_assert(models::WordModel<AnyModel>);
static_assert(models::WordModel<models::Ensemble<AnyModel>>);

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
    for (const auto& field : models::model_fields(kind.name)) {
      CAPTURE(field.name);
      const std::string before = field.get(options);
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
  CHECK_THROWS_WITH_AS(models::model_options("transformer"),
                       "model: 'transformer' is not one of bahdanau, nematus, luong, "
                       "encoder-decoder, sutskever, seq2seq",
                       Error);
  CHECK_THROWS_WITH_AS(models::set(options, "window", "local-p"),
                       "window: the model bahdanau has no such option, but luong, seq2seq has",
                       Error);
  CHECK_THROWS_WITH_AS(models::set(options, "colour", "red"),
                       "colour: there is no such option of the model bahdanau", Error);
  auto map = to_map(options);
  map.erase("hidden");
  CHECK_THROWS_WITH_AS(models::model_options_from(map), "options: there is no 'hidden'", Error);
  map.erase("model");
  CHECK_THROWS_WITH_AS(models::model_options_from(map), "options: there is no 'model'", Error);
  nn::Parameters params(1);
  options.name = "luong";
  CHECK_THROWS_WITH_AS(AnyModel(params, options, kSizes),
                       "AnyModel: the options are not those of the model luong", Error);
  options = models::model_options("sutskever");
  options.coverage_loss = 1;
  CHECK_THROWS_WITH_AS(AnyModel(params, options, kSizes),
                       "AnyModel: coverage is of attention, and this model has none", Error);
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

TEST_CASE("AnyModel: an ensemble of different models, and of one") {
  std::vector<AnyModel> all;
  std::vector<const AnyModel*> pointers;
  for (const char* name : {"bahdanau", "luong", "sutskever"}) {
    nn::Parameters params(3);
    all.emplace_back(params, sized(name), kSizes);
  }
  for (const AnyModel& model : all) pointers.push_back(&model);
  const models::Ensemble<AnyModel> expected(pointers);
  const AnyModel together = models::ensemble_of(all);
  const auto [source, mask] = text::make_source_batch(random_sentences({2, 5, 1}, 11, 6));
  const auto words = [&, source = source, mask = mask](const auto& model) {
    return models::search(model, text::SourceBatch{source, mask}, {.max_length = 7});
  };
  for (std::size_t b = 0; b < 3; ++b)
    CHECK(std::ranges::equal(words(together)[b], words(expected)[b], same));
  const AnyModel alone = models::ensemble_of({all[0]});
  for (std::size_t b = 0; b < 3; ++b)
    CHECK(std::ranges::equal(words(alone)[b], words(all[0])[b], same));
  CHECK_THROWS_WITH_AS(models::ensemble_of({}), "Ensemble: there is no model", Error);
}

TEST_CASE("AnyModel: a state of another model is an error") {
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(1)};
  const AnyModel a(params[0], sized("bahdanau"), kSizes), b(params[1], sized("luong"), kSizes);
  const auto [source, mask] = text::make_source_batch(random_sentences({2}, 11, 6));
  const auto state = a.start(a.encode(source, mask));
  CHECK_THROWS_WITH_AS(b.select(state, Tensor::of({1}, {0})), "AnyModel: a value of another model",
                       Error);
  CHECK_THROWS_WITH_AS(b.select({}, Tensor::of({1}, {0})), "AnyModel: a value of another model",
                       Error);
}

}  // namespace
