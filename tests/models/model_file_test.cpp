// Model files: round trips and errors.
#include <doctest/doctest.h>

#include <attune/models/model_file.hpp>
#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/scratch_directory.hpp"

namespace attune::models {
namespace {

using Tokens = std::vector<std::string>;

/// Characters of the source, words of the target: vocabularies of 11 and 8.
Codecs codecs() {
  const text::Tokenizer characters{text::Characters{}}, words{text::Words{}};
  return {{characters, text::Vocabulary(Tokens{"a", "b", "c", "d", "e", "ä", " "})},
          {words, text::Vocabulary(Tokens{"one", "two", "\"three\"", "vier"})}};
}
const Vocabularies kSizes{.source = 11, .target = 8};

/// The translation of a line and its log-probability.
std::pair<std::string, double> written(const Model& model, const Codecs& codecs) {
  const SearchOptions how{.max_length = 6};
  const auto found = translate(model, {{codecs.source.encode("ab äx")}}, {.how = how})[0][0];
  return {codecs.target.decode(found.words), found.log_probability};
}

/// Checks that names and weights are equal bit for bit.
bool same_weights(const nn::Parameters& a, const nn::Parameters& b) {
  return std::ranges::equal(a.all(), b.all(), [](const auto& x, const auto& y) {
    return x.name == y.name && identical(x.variable.value(), y.variable.value());
  });
}

/// The file of a small model, with optional changes.
template <class Change>
std::filesystem::path changed(const ScratchDirectory& directory, Change change) {
  nn::Parameters params(3);
  const NamedModel model(params, test::options_from("luong", "embedding=3 hidden=4"), kSizes);
  Safetensors file;
  file.metadata["hidden"] = "8";  // replaced
  store(file, model, params, codecs());
  change(file);
  const auto path = directory / "changed.safetensors";
  save_safetensors(path, file);
  return path;
}

TEST_CASE("model_file: options, vocabularies and weights of any model are restored bit for bit") {
  const ScratchDirectory directory;
  const auto path = directory / "model.safetensors";
  for (const ModelKind& kind : model_kinds()) {
    CAPTURE(kind.name);
    nn::Parameters params(3);
    ModelOptions options = test::options_from(
        kind.name,
        "embedding=4 hidden=6 attention-heads=2 score=multi-head attention=6 heads=2 "
        "window=local-p half-width=2 label-smoothing=0.125 coverage-loss=0.3");
    const NamedModel model(params, options, kSizes);
    test::scale_parameters(params, 3);
    save(path, model, params, codecs(), {{"by", "hand"}});
    const LoadedModel<> back = load(path);
    ModelOptions stored = back.model.options();
    CHECK(stored.name == kind.name);
    CHECK(to_map(stored) == to_map(options));
    CHECK(same_weights(*back.parameters, params));
    CHECK(to_json(back.codecs.target.vocabulary) == to_json(codecs().target.vocabulary));
    CHECK(to_json(back.codecs.source.tokenizer) == to_json(codecs().source.tokenizer));
    CHECK(written(back.model, back.codecs) == written(model, codecs()));
    CHECK(back.metadata.at("by") == "hand");
    CHECK(back.checksum == load_safetensors(path).checksum);
  }
}

TEST_CASE("model_file: a paper's class and NamedModel read each other's files") {
  const ScratchDirectory directory;
  const auto path = directory / "model.safetensors";
  nn::Parameters params(3);
  LuongOptions options{.source_vocabulary = 11, .target_vocabulary = 8, .embedding = 3};
  options.hidden = 4, options.reading = EncoderDirection::backward;
  const Luong model(params, options);
  test::scale_parameters(params, 3);
  save(path, model, params, codecs());
  const auto same_class = load<Luong>(path);
  CHECK(same_weights(*same_class.parameters, params));
  CHECK(same_class.model.options().reading == EncoderDirection::backward);
  CHECK(written(same_class.model, same_class.codecs) == written(model, codecs()));
  const auto any = load(path);
  CHECK(written(any.model, any.codecs) == written(model, codecs()));
  save(path, any.model, *any.parameters, any.codecs);
  CHECK(same_weights(*load<Luong>(path).parameters, params));
  CHECK_ERROR(path.string() + ": checkpoint: the model is 'luong', expected bahdanau",
              load<Bahdanau>(path));
}

TEST_CASE("model_file: f64 parameters are restored") {
  const ScratchDirectory directory;
  const auto path = directory / "model.safetensors";
  nn::Parameters params(3, DType::f64);
  const NamedModel model(params, test::options_from("luong", "embedding=3 hidden=4"), kSizes);
  save(path, model, params, codecs());
  CHECK(same_weights(*load(path).parameters, params));
}

TEST_CASE("model_file: a language model is restored") {
  const ScratchDirectory directory;
  const auto path = directory / "model.safetensors";
  nn::Parameters params(3);
  const TransformerLm model(params,
                            {.target_vocabulary = 8, .layer = {.size = 8, .heads = 2, .inner = 5}});
  save(path, model, params, {text::Codec(), codecs().target});
  const auto back = load<TransformerLm>(path);
  CHECK(same_weights(*back.parameters, params));
  CHECK(test::same(sample(back.model, no_source(1), {}, {.max_length = 5})[0],
                   sample(model, no_source(1), {}, {.max_length = 5})[0]));
  CHECK_ERROR(path.string() +
                  ": model: 'transformer-lm' is not one of bahdanau, nematus, luong, "
                  "encoder-decoder, sutskever, transformer",
              load(path));
}

TEST_CASE("model_file: a file of another format or model is an error with the path") {
  const ScratchDirectory directory;
  const auto error = [&](auto change) {
    const auto path = changed(directory, change);
    const std::string message = error_of([&] { load(path); });
    REQUIRE(message.starts_with(path.string() + ": "));
    return message.substr(path.string().size() + 2);
  };
  CHECK(error([](auto& f) { f.metadata["format"] = "attune speech 1"; }) ==
        "checkpoint: the format is 'attune speech 1', expected 'attune pairs 1'");
  CHECK(error([](auto& f) { f.metadata.erase("format"); }) ==
        "checkpoint: the format is missing, expected 'attune pairs 1'");
  for (const char* entry : {"model", "source_tokenizer", "target_vocabulary"})
    CHECK(error([&](auto& f) { f.metadata.erase(entry); }) ==
          fmt::format("checkpoint: '{}' is missing", entry));
  CHECK(error([](auto& f) { f.metadata.erase("hidden"); }) == "options: 'hidden' is missing");
  CHECK(error([](auto& f) { f.metadata["hidden"] = "many"; }) ==
        "hidden: 'many' is not a whole number from 1 to 65536");
  CHECK(error([](auto& f) { f.metadata["source_vocabulary"] = "[1"; }) ==
        "source_vocabulary: vocabulary: a JSON array of tokens was expected");
  CHECK(error([](auto& f) { f.tensors["decoder.V"] = zeros({2}); }) ==
        "checkpoint: 'decoder.V' is not a parameter of the model");
  CHECK(error([](auto& f) { f.tensors.erase("decoder.W_feed"); }) ==
        "checkpoint: 'decoder.W_feed' (4, 16) is missing");
  CHECK(error([](auto& f) { f.metadata["embedding"] = "5"; }) ==
        "checkpoint: 'target.E' is f32 (8, 3), but f32 (8, 5) was expected");
  CHECK(error([](auto& f) { f.tensors["average.x"] = zeros({2}); }) ==
        "checkpoint: 'average.x' is not a parameter of the model");
  load(changed(directory, [](auto& f) {  // of an optimiser, as StepState::save writes it
    f.tensors["lion.m.x"] = zeros({2});
    f.metadata["lion.steps"] = "3";
  }));
  load(changed(directory, [](auto& f) { f.metadata["decoder.steps"] = "3"; }));  // not an optimiser
}

}  // namespace
}  // namespace attune::models
