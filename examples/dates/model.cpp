#include "model.hpp"

#include <charconv>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/nn/checkpoint.hpp>

namespace attune::dates {
namespace {

constexpr const char* format = "attune dates 1";
constexpr Index longest_date = 40;  // characters to write at most

models::BahdanauOptions network_options(const ModelOptions& o, Index source, Index target) {
  return {.source_vocabulary = source,
          .target_vocabulary = target,
          .embedding = o.embedding,
          .hidden = o.hidden,
          .attention = o.attention,
          .readout = o.readout,
          .encoder_cell = o.encoder_cell,
          .decoder_cell = o.decoder_cell,
          .start = o.start,
          .readout_kind = o.readout_kind,
          .readout_state = o.readout_state,
          .dropout = o.dropout};
}

const std::string& entry(const std::map<std::string, std::string>& map, const char* name) {
  const auto at = map.find(name);
  if (at == map.end()) fail("checkpoint", fmt::format("its metadata has no '{}'", name));
  return at->second;
}

template <class T>
T number(const std::map<std::string, std::string>& map, const char* name) {
  const std::string& text = entry(map, name);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("checkpoint", fmt::format("'{}' is '{}', not a number", name, text));
  }
  return value;
}

/// One of two names.
bool is_second(const std::map<std::string, std::string>& map, const char* name,
               std::string_view first, std::string_view second) {
  const std::string& text = entry(map, name);
  if (text != first && text != second) {
    fail("checkpoint", fmt::format("'{}' is '{}', not {} or {}", name, text, first, second));
  }
  return text == second;
}

}  // namespace

std::map<std::string, std::string> to_map(const ModelOptions& o) {
  return {
      {"embedding", std::to_string(o.embedding)},
      {"hidden", std::to_string(o.hidden)},
      {"attention", std::to_string(o.attention)},
      {"readout", std::to_string(o.readout)},
      {"encoder_cell", nn::name_of(o.encoder_cell)},
      {"decoder_cell", nn::name_of(o.decoder_cell)},
      {"start", o.start == models::Start::zero ? "zero" : "bridge"},
      {"readout_kind", o.readout_kind == models::ReadoutKind::tanh ? "tanh" : "maxout"},
      {"readout_state", o.readout_state == models::ReadoutState::current ? "current" : "previous"},
      {"dropout", fmt::format("{}", o.dropout)}};
}

ModelOptions model_options_from(const std::map<std::string, std::string>& map) {
  ModelOptions o;
  o.embedding = number<Index>(map, "embedding");
  o.hidden = number<Index>(map, "hidden");
  o.attention = number<Index>(map, "attention");
  o.readout = number<Index>(map, "readout");
  o.encoder_cell = nn::cell_of(entry(map, "encoder_cell"));
  o.decoder_cell = nn::cell_of(entry(map, "decoder_cell"));
  o.start = is_second(map, "start", "zero", "bridge") ? models::Start::bridge : models::Start::zero;
  o.readout_kind = is_second(map, "readout_kind", "tanh", "maxout") ? models::ReadoutKind::maxout
                                                                    : models::ReadoutKind::tanh;
  o.readout_state = is_second(map, "readout_state", "current", "previous")
                        ? models::ReadoutState::previous
                        : models::ReadoutState::current;
  o.dropout = number<double>(map, "dropout");
  // A damaged file must not make us allocate without bounds.
  constexpr Index largest = 1 << 16;
  for (const auto& [name, size] : {std::pair{"embedding", o.embedding},
                                   {"hidden", o.hidden},
                                   {"attention", o.attention},
                                   {"readout", o.readout}}) {
    if (size < 1 || size > largest)
      fail("checkpoint", fmt::format("'{}' is {}, not 1 to {}", name, size, largest));
  }
  return o;
}

Model::Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
             std::uint64_t seed)
    : options_(options),
      source_(std::move(source)),
      target_(std::move(target)),
      parameters_(std::make_unique<nn::Parameters>(seed)),
      network_(std::make_unique<models::Bahdanau>(
          *parameters_, network_options(options, source_.size(), target_.size()))) {}

namespace {

/// Compares the sizes that a checkpoint's options name with its tensors, before anything of these
/// sizes is made.
void check_sizes(const Safetensors& file, const ModelOptions& o, Index source, Index target) {
  const std::pair<const char*, Shape> expected[] = {{"source.E", {source, o.embedding}},
                                                    {"target.E", {target, o.embedding}},
                                                    {"attention.W_a", {o.hidden, o.attention}},
                                                    {"output.W", {o.readout, target}}};
  for (const auto& [name, shape] : expected) {
    const Tensor* tensor = file.find(name);
    if (tensor && tensor->shape() == shape) continue;
    fail("checkpoint",
         fmt::format("'{}' is {}, but its options say {}", name,
                     tensor ? to_string(tensor->shape()) : "missing", to_string(shape)));
  }
  const bool has_bridge = file.find("bridge.W") != nullptr;
  if (has_bridge != (o.start == models::Start::bridge)) {
    fail("checkpoint", fmt::format("'bridge.W' is {}, but its options say otherwise",
                                   has_bridge ? "there" : "missing"));
  }
}

}  // namespace

Model Model::load(const std::filesystem::path& path) {
  const Safetensors file = load_safetensors(path);
  return reading(path, [&] {
    const auto kind = file.metadata.find("format");
    if (kind == file.metadata.end() || kind->second != format) {
      fail("checkpoint",
           fmt::format("not one of this program ('{}' was expected as its format)", format));
    }
    const ModelOptions options = model_options_from(file.metadata);
    const auto source = text::vocabulary_from_json(entry(file.metadata, "source_vocabulary"));
    const auto target = text::vocabulary_from_json(entry(file.metadata, "target_vocabulary"));
    check_sizes(file, options, source.size(), target.size());
    Model model(options, source, target, 0);
    model.load_weights(file);
    model.metadata_ = file.metadata;
    return model;
  });
}

double number_in(const std::map<std::string, std::string>& metadata, const char* name) {
  return number<double>(metadata, name);
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
  file.metadata.merge(to_map(options_));
  file.metadata["format"] = format;
  file.metadata["source_vocabulary"] = text::to_json(source_);
  file.metadata["target_vocabulary"] = text::to_json(target_);
}

void Model::load_weights(const Safetensors& file) { nn::load_parameters(file, *parameters_); }

text::Sentence Model::encode_source(std::string_view text) const {
  return source_.encode(text::code_points(text));
}

text::Pair Model::encode(std::string_view source, std::string_view target) const {
  return {encode_source(source), target_.encode(text::code_points(target))};
}

std::string Model::decode(std::span<const std::int32_t> words) const {
  std::string text;
  for (std::int32_t word : words) text += target_.token(word);
  return text;
}

std::vector<models::Hypothesis> Model::predict(std::span<const text::Sentence> sources,
                                               Index beam) const {
  const auto [source, mask] = text::make_source_batch(sources);
  std::vector<models::Hypothesis> best;
  for (auto& hypotheses :
       models::search(*network_, source, mask, {.beam = beam, .max_length = longest_date})) {
    best.push_back(std::move(hypotheses.front()));
  }
  return best;
}

report::Heatmap Model::heatmap(std::vector<std::string> source,
                               const models::Hypothesis& written) const {
  report::Heatmap map{.rows = {}, .columns = std::move(source), .weights = {}, .caption = ""};
  for (std::int32_t word : written.words) map.rows.push_back(target_.token(word));
  map.weights = written.weights.slice(0, std::ssize(map.rows)).to_vector<double>();
  return map;
}

}  // namespace attune::dates
