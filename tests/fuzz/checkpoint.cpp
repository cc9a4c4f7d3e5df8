// Checkpoints of dates, transduce and translate with other metadata and tensors than they wrote. An
// input is lines, each of which changes something:
//
//     PROGRAM PRESET            whose checkpoint, and of which model, to begin with
//     *NAME=VALUE               an option before it is made: one of some names, or a small number
//     NAME=VALUE                an entry of the metadata
//     -NAME                     an entry or a tensor that is left out
//     @NAME=2,3                 a tensor of another shape
//     !NAME=nan                 a tensor of one value
#include <charconv>
#include <cmath>
#include <vector>

#include <attune/models/presets.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/average.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/divergence.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/nn/sgd.hpp>

#include "dates/train.hpp"
#include "fuzz.hpp"
#include "scratch.hpp"
#include "transduce/evaluation.hpp"
#include "transduce/train.hpp"
#include "translate/evaluation.hpp"
#include "translate/train.hpp"

namespace {

using namespace attune;
using fuzz::expect;

constexpr std::size_t most_changes = 40;

struct Change {
  char kind;  // * = - @ !
  std::string name, value;
};

std::vector<Change> changes(std::string_view text) {
  std::vector<Change> all;
  while (!text.empty() && all.size() < most_changes) {
    std::string_view line = fuzz::take(text, "\n");
    char kind = '=';
    if (!line.empty() && std::string_view("*-@!").find(line.front()) != std::string_view::npos) {
      kind = line.front();
      line.remove_prefix(1);
    }
    const std::string_view name = fuzz::take(line, "=");
    all.push_back({kind, std::string(name), std::string(line)});
  }
  return all;
}

/// Options of a model that is small whatever the changes.
models::Seq2SeqOptions network_options(models::Seq2SeqOptions options,
                                       const std::vector<Change>& all) {
  options.embedding = options.hidden = options.readout = options.score.attention = 2;
  options.encoder_layers = options.decoder_layers = 1;
  options.score.longest = 4;
  for (const auto& [kind, name, value] : all) {
    if (kind != '*' ||
        (value.size() > 1 && std::isdigit(static_cast<unsigned char>(value[0])) && value[1] != '.'))
      continue;
    fuzz::accepted(
        [&, &name = name, &value = value] { return models::set(options, name, value), true; });
  }
  return options;
}

Tensor tensor_of(std::string_view extents) {
  std::vector<Index> shape;
  while (!extents.empty() && shape.size() < 7) {
    const std::string_view text = fuzz::take(extents, ",");
    Index extent = 0;
    std::from_chars(text.data(), text.data() + text.size(), extent);
    shape.push_back(extent % 16);
  }
  return zeros(Shape(shape));
}

void change(Safetensors& file, const Change& change) {
  const auto& [kind, name, value] = change;
  if (kind == '=') file.metadata[name] = value;
  if (kind == '-') file.metadata.erase(name), file.tensors.erase(name);
  if (kind == '@') file.tensors.insert_or_assign(name, tensor_of(value));
  if (const auto at = file.tensors.find(name); kind == '!' && at != file.tensors.end()) {
    double number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    at->second = full(at->second.shape(), number, at->second.dtype());
  }
}

bool reads(auto load) {
  return fuzz::accepted([&] { return load(), true; }).has_value();
}

/// State in metadata that is read, written and read again.
template <class State>
void check_state(State state, const Metadata& metadata) {
  if (!reads([&] { state.load(metadata); })) return;
  Metadata saved, again;
  state.save(saved);
  state.load(saved);
  state.save(again);
  expect(saved == again, "another state comes back");
}

template <class Optimizer>
void check_optimizer(Optimizer optimizer, const Safetensors& file) {
  if (!reads([&] { optimizer.load(file); })) return;
  Safetensors saved;
  optimizer.save(saved);
  optimizer.load(saved);
  expect(optimizer.steps() >= 0, "an optimiser of negative steps");
}

void check_schedules(std::int64_t count) {
  const nn::Schedule schedules[] = {nn::InverseSquareRoot{.rate = 1, .warm_up = count},
                                    nn::LinearDecay{.rate = 1, .last = 0.5, .steps = count},
                                    nn::WarmUp<nn::ConstantRate>{.steps = count, .next = {1}}};
  for (const nn::Schedule& schedule : schedules) {
    for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, count}) {
      const auto rate = fuzz::accepted([&] { return schedule(step); });
      expect(!rate || (*rate >= 0 && *rate <= 1), "a schedule gives no rate");
    }
  }
}

/// What a resumed run takes from a checkpoint beside the model.
void check_run(const Safetensors& file, nn::Parameters& parameters) {
  check_optimizer(nn::Adam(parameters), file);
  check_optimizer(nn::Sgd(parameters, {.rate = 0.1, .momentum = 0.9}), file);
  nn::MovingAverage average(parameters, 0.5);
  reads([&] { average.load(file); });
  check_state(nn::HalveOnPlateau({.rate = 1}), file.metadata);
  check_state(nn::DivergenceWatch(), file.metadata);
  reads([&] { return seconds_in(file.metadata); });
  for (const auto& entry : file.metadata) {
    const std::string& name = entry.first;
    const auto number = fuzz::accepted([&] { return nn::load_number(file.metadata, name, -1, 1); });
    expect(!number || std::abs(*number) <= 1, "load_number: out of range");
    const auto count = fuzz::accepted([&] { return nn::load_count(file.metadata, name); });
    if (!count) continue;
    expect(*count >= 0 && *count <= std::int64_t{1} << 53, "load_count: out of range");
    check_schedules(*count);
  }
}

/// Reads a model, writes it and reads it again.
template <class Model>
std::optional<Model> check_model(const std::filesystem::path& path) {
  auto model = fuzz::accepted([&] { return Model::load(path); });
  if (!model) return model;
  Safetensors file;
  model->save(file);
  save_safetensors(fuzz::scratch_file("again"), file);
  Safetensors again;
  Model::load(fuzz::scratch_file("again")).save(again);
  expect(again.metadata == file.metadata && again.tensors.size() == file.tensors.size(),
         "another model comes back");
  return model;
}

/// Options that were taken from a checkpoint are taken from their own text again.
template <class Options>
void check_stored(std::span<const models::OptionField<Options>> fields,
                  const std::optional<Options>& stored) {
  if (!stored) return;
  const auto map = models::fields_to_map(fields, *stored);
  Options again;
  models::set_fields_from(fields, again, map);
  expect(models::fields_to_map(fields, again) == map, "stored options: others come back");
}

/// The checkpoint of a model with all changes, read as its program reads it; nothing where it is
/// refused.
template <class Model, class Options>
std::optional<Model> check_changed(const Model& model, Metadata options,
                                   std::span<const models::OptionField<Options>> fields,
                                   Options (*stored)(const std::filesystem::path&),
                                   const std::vector<Change>& all) {
  Safetensors file;
  model.save(file);
  file.metadata.merge(models::fields_to_map(fields, Options{}));
  file.metadata.merge(options);
  for (const Change& one : all) change(file, one);
  const auto path = fuzz::scratch_file("changed");
  if (!fuzz::accepted([&] { return save_safetensors(path, file), true; })) return std::nullopt;
  check_stored(fields, fuzz::accepted([&] { return stored(path); }));
  std::optional<Model> read = check_model<Model>(path);
  if (read) check_run(file, read->parameters());
  return read;
}

const std::vector<std::string> letters = {"a", "b", "c", "1", "-"};

void run_dates(const std::string& preset, const std::vector<Change>& all) {
  ModelOptions options = dates::model_options(preset);
  options.network = network_options(options.network, all);
  const dates::Model made(options, text::Vocabulary(letters), text::Vocabulary(letters), 1);
  auto model = check_changed(made, {}, dates::train_fields(), dates::stored_options, all);
  if (!model) return;
  const std::vector<text::Sentence> sources = {model->source().encode("a1"),
                                               model->source().encode("x-")};
  const auto best = fuzz::accepted([&] { return model->predict(sources, 2); });
  for (std::size_t i = 0; best && i < best->size(); ++i) {
    model->decode((*best)[i].words);
    heatmap(*model, text::code_points("a1"), (*best)[i]);
  }
}

void run_transduce(const std::string& preset, const std::vector<Change>& all) {
  ModelOptions options = transduce::model_options(preset);
  options.network = network_options(options.network, all);
  const text::Vocabulary vocabulary(letters);
  const Codecs codecs{{text::DecomposedCharacters{}, vocabulary}, {text::Words{}, vocabulary}};
  const transduce::Model made(options, codecs, /*longest=*/2, 1);
  const auto model =
      check_changed(made, {}, transduce::train_fields(), transduce::stored_options, all);
  if (!model || model->most_tokens() > 100) return;  // which would take long
  const transduce::Row row{.source = "äb", .target = "b a", .line = 1};
  fuzz::accepted([&] { return transduce::evaluate({&*model, 1}, {&row, 1}, 2); });
}

void run_translate(const std::string& preset, const std::vector<Change>& all) {
  const text::Codec codec{text::Words{}, text::Vocabulary(letters)};
  const translate::Model made(network_options(translate::model_options(preset).network, all),
                              {codec, codec}, 1);
  const auto model = check_changed(made, {{"preset", preset}}, translate::train_fields(),
                                   translate::stored_options, all);
  if (!model) return;
  const auto source = fuzz::accepted([&] { return model->source().encode("a b x"); });
  if (!source || source->empty()) return;
  const std::vector<text::Sentence> sources = {*source};
  fuzz::accepted([&] {
    return translate::translations(translate::alone(*model), sources, {.beam = 2, .max_length = 5});
  });
}

}  // namespace

void fuzz_one(std::string_view input) {
  std::string_view first = fuzz::take(input, "\n");
  const std::string_view program = fuzz::take(first, " ");
  const auto run = program == "dates"       ? run_dates
                   : program == "transduce" ? run_transduce
                                            : run_translate;
  fuzz::accepted([&] { return run(std::string(first), changes(input)), true; });
}
