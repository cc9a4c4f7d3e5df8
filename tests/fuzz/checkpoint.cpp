// Checkpoints with changed metadata and tensors. The lines of an input are:
//
//     MODEL                     the name of the model (first line)
//     *NAME=VALUE               sets an option of the model before its construction; small numbers only
//     NAME=VALUE                sets a metadata entry
//     -NAME                     removes a metadata entry or tensor
//     @NAME=2,3                 replaces a tensor by one of this shape
//     !NAME=nan                 fills a tensor with a value
#include <charconv>
#include <cmath>
#include <vector>

#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/schedules.hpp>

#include "attune/evaluation.hpp"
#include "attune/letters.hpp"
#include "attune/run_directory.hpp"
#include "fuzz.hpp"

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

/// Options of a model, which is small for all changes.
models::ModelOptions model_options(const std::string& name, const std::vector<Change>& all) {
  auto options = models::model_options(name);
  for (const char* size : {"embedding", "hidden", "attention", "readout", "inner", "longest"})
    fuzz::accepted([&] { return models::set(options, size, "2"), true; });
  for (const char* count : {"attention-heads", "encoder-layers", "decoder-layers"})
    fuzz::accepted([&] { return models::set(options, count, "1"), true; });
  for (const auto& [kind, option, value] : all) {
    if (kind != '*' ||
        (value.size() > 1 && std::isdigit(static_cast<unsigned char>(value[0])) && value[1] != '.'))
      continue;
    fuzz::accepted([&, &option = option, &value = value] {
      return models::set(options, option, value), true;
    });
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

/// Loads a state; saving, loading and saving again must give the same metadata.
void check_state(auto state, const Safetensors& file) {
  if (!reads([&] { state.load(file); })) return;
  Safetensors saved, again;
  state.save(saved);
  state.load(saved);
  state.save(again);
  expect(saved.metadata == again.metadata, "a saved state differs after loading");
}

/// Loads an optimiser or a moving average.
void check_steps(auto state, const Safetensors& file) {
  if (!reads([&] { state.load(file); })) return;
  Safetensors saved;
  state.save(saved);
  state.load(saved);
  expect(state.steps() >= 0, "the number of steps is negative");
}

void check_schedules(std::int64_t count) {
  const nn::Schedule schedules[] = {
      nn::InverseSquareRoot{.rate = 1, .warm_up = count},
      nn::LinearDecay{.rate = 1, .last = 0.5, .steps = count},
      nn::WarmUp{.steps = count, .next = [](std::int64_t) { return 1.0; }}};
  for (const nn::Schedule& schedule : schedules) {
    for (const std::int64_t step : {std::int64_t{0}, std::int64_t{1}, count}) {
      const auto rate = fuzz::accepted([&] { return schedule(step); });
      expect(!rate || (*rate >= 0 && *rate <= 1), "the rate of a schedule is not in [0, 1]");
    }
  }
}

/// Loads the state of a training: optimisers, averages, schedules.
void check_run(const Safetensors& file, nn::Parameters& parameters) {
  check_steps(nn::Adam(parameters), file);
  check_steps(nn::Sgd(parameters, {.rate = 0.1, .momentum = 0.9}), file);
  check_steps(nn::MovingAverage(parameters, 0.5), file);
  check_state(nn::HalveOnPlateau({.rate = 1}), file);
  check_state(nn::DivergenceMonitor(), file);
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

/// Loads a model; after saving and loading again it must be the same.
std::optional<pairs::Model> check_model(const std::filesystem::path& path) {
  auto model = fuzz::accepted([&] { return pairs::Model::load(path); });
  if (!model) return model;
  Safetensors file;
  model->save(file);
  save_safetensors(fuzz::scratch_file("again"), file);
  Safetensors again;
  pairs::Model::load(fuzz::scratch_file("again")).save(again);
  expect(again.metadata == file.metadata && again.tensors.size() == file.tensors.size(),
         "a saved model differs after loading");
  return model;
}

/// Loads stored options; converting them to metadata and back must not change them.
void check_stored(const std::filesystem::path& path) {
  const auto stored = fuzz::accepted([&] { return pairs::stored_options(path); });
  if (!stored) return;
  const Metadata map = pairs::to_metadata(*stored);
  expect(pairs::to_metadata(pairs::train_options_from(map)) == map,
         "stored options differ after conversion to metadata");
}

void run(const std::string& name, const std::vector<Change>& all) {
  const std::vector<std::string> letters = {"a", "b", "c", "1", "-"};
  const text::Vocabulary vocabulary(letters);
  const pairs::Model made = pairs::Model::initial(
      model_options(name, all),
      {{text::decomposed_characters(), vocabulary}, {text::Words{}, vocabulary}},
      /*longest=*/2, 1);
  Safetensors file;
  made.save(file);
  file.metadata.merge(pairs::to_metadata(pairs::train_options(false)));
  for (const Change& one : all) change(file, one);
  const auto path = fuzz::scratch_file("changed");
  if (!fuzz::accepted([&] { return save_safetensors(path, file), true; })) return;
  check_stored(path);
  auto model = check_model(path);
  if (!model) return;
  check_run(file, *model->parameters);
  pairs::TestPairs test;
  test.lines = {"äb"}, test.references = {{"b a"}}, test.numbers = {1};
  fuzz::accepted([&] {
    test.sources = {model->source().encode("äb")}, test.targets = {model->target().encode("b a")};
    const models::SearchOptions search{.beam = 2, .max_length = 5};
    return pairs::evaluate({&*model, 1}, test, search, {});
  });
}

}  // namespace

void fuzz_one(std::string_view input) {
  const std::string_view first = fuzz::take(input, "\n");
  fuzz::accepted([&] { return run(std::string(first), changes(input)), true; });
}
