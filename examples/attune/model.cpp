#include "model.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include <attune/models/ensemble.hpp>
#include <attune/models/text/utf8.hpp>

#include "letters.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

std::vector<std::filesystem::path> last_trained() {
  std::vector<std::filesystem::path> last;
  for (const char* directory : {"attune-model", "build/quickstart"}) {
    const auto files = models_in(directory);
    const auto time = [](const auto& some) {
      return std::filesystem::last_write_time(some.front());
    };
    if (files.empty()) continue;
    const bool first = last.empty();
    if (first || time(files) > time(last)) last = files;
    if (!first) complain("model: {}, the newer one\n", last.front().string());
  }
  if (!last.empty()) return last;
  fail("--model",
       "there is no model in attune-model or build/quickstart: train one with 'attune train "
       "PAIRS.tsv', or specify one");
}

}  // namespace

Model Model::initial(const models::ModelOptions& options, Codecs codecs, Index longest,
                     std::uint64_t seed) {
  auto parameters = std::make_unique<nn::Parameters>(seed);
  const models::NamedModel model(
      *parameters, options, {codecs.source.vocabulary.size(), codecs.target.vocabulary.size()});
  return {{std::move(parameters), model, std::move(codecs), {}, {}, {}}, longest};
}

Model Model::load(const std::filesystem::path& path) {
  auto loaded = models::load(path, text::read_rewriter);
  return reading(path, [&] {
    const bool counted = loaded.metadata.contains("longest-target");
    const Index longest = counted ? nn::load_count(loaded.metadata, "longest-target") : 0;
    if (longest > 1 << 24) fail("longest-target", "{} is too large", longest);
    return Model{std::move(loaded), longest};
  });
}

void Model::save(Safetensors& file) const {
  models::store(file, model, *parameters, codecs);
  shortlist.store(file);
  file.metadata["longest-target"] = std::to_string(longest);
}

std::string Model::entry(const std::string& name) const {
  const auto at = metadata.find(name);
  return at == metadata.end() ? "" : at->second;
}

bool Model::of_sentences() const {
  return entry("metric") == "bleu" || entry("sentences") == "yes";
}

void check_alike(std::span<const std::string> names, const Model& first,
                 const std::filesystem::path& path, const Model& other, const char* first_name) {
  for (const std::string& name : names)
    if (other.entry(name) != first.entry(name))
      fail(path.string(), "its {} differs from that of {}", name, first_name);
}

std::vector<std::filesystem::path> models_in(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / best_file)) return {directory / best_file};
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none))
    if (std::filesystem::exists(entry.path() / best_file))
      files.push_back(entry.path() / best_file);
  std::ranges::sort(files);
  return files;
}

std::vector<std::filesystem::path> model_files(std::span<const std::filesystem::path> paths) {
  if (paths.empty()) return last_trained();
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    const auto some = std::filesystem::is_directory(path) ? models_in(path) : std::vector{path};
    if (some.empty())
      fail(path.string(),
           std::filesystem::exists(path / last_file)
               ? "no validation has selected weights yet, expected more training "
                 "(train --resume)"
               : fmt::format("neither it nor a subdirectory contains {}", best_file));
    files.insert(files.end(), some.begin(), some.end());
  }
  return files;
}

std::filesystem::path model_file(std::span<const std::filesystem::path> paths) {
  const std::vector<std::filesystem::path> files = model_files(paths);
  if (files.size() > 1)
    fail(files.front().parent_path().parent_path().string(),
         "contains {} models, expected one of them", files.size());
  return files.front();
}

std::vector<Model> load_models(std::span<const std::filesystem::path> files) {
  std::vector<Model> models;
  for (const auto& file : files) {
    models.push_back(Model::load(file));
    check_alike(codec_entries, models.front(), file, models.back(), "the first model");
    if (models.back().nfc() != models.front().nfc())
      fail(file.string(), "its nfc differs from that of the first model");
  }
  return models;
}

std::vector<Model> load_equal_models(std::span<const std::filesystem::path> files) {
  std::vector<Model> models = load_models(files);
  Texts checksums;
  for (const Model& model : models) checksums.push_back("the checksum " + model.checksum);
  require_equal("--model", checksums);
  return models;
}

models::Model network_of(Models models) {
  std::vector<models::Model> all;
  for (const Model& model : models) all.push_back(model.model);
  return models::ensemble_of(std::move(all));
}

std::string normalized(std::string_view line, bool nfc) {
  if (nfc && !std::ranges::all_of(line, [](unsigned char c) { return c < 0x80; }))
    return normalized(text::composed(line), false);
  return fmt::format("{}", fmt::join(text::words(line), " "));
}

std::string kind_of(const text::Tokenizer& tokenizer) {
  using Kind = text::Tokenizer::Kind;
  return tokenizer.kind() == Kind::pieces  ? "subwords"
         : tokenizer.kind() == Kind::words ? "words between blanks"
         : text::decomposes(tokenizer)     ? "decomposed characters"
                                           : "characters";
}

std::string kinds_of(const text::Codec& codec) {
  return fmt::format("{}, {} kinds", kind_of(codec.tokenizer), codec.vocabulary.size());
}

Index longest_read(const models::ModelOptions& options, Index most) {
  const Index positions = models::longest_source(options);
  return positions > 0 ? std::min(most, positions) : most;
}

Index longest_read(Models models, Index most) {
  for (const Model& model : models) most = longest_read(model.model.options(), most);
  return most;
}

void check_length(Index tokens, const std::string& place, Index longest) {
  if (tokens <= longest) return;
  const bool own = longest == longest_source || longest == longest_of_pair;
  fail(place, "{} tokens, expected at most {}{}", tokens, longest,
       own ? "" : ", the --longest of the score location");
}

void UnknownTokens::add(const text::Codec& codec, std::span<const std::string> tokens) {
  all_ += tokens.size();
  for (const std::string& token : tokens) {
    if (codec.vocabulary.id(token) != text::Vocabulary::unknown) continue;
    ++unknown_;
    kinds_.insert(token);
  }
}

void UnknownTokens::require_known(const std::string& data, const char* side,
                                  const std::string& vocabulary) const {
  if (unknown_ > 0 && unknown_ == all_)
    fail(data, "none of its {} tokens is in the vocabulary{}", side,
         vocabulary.empty() ? "" : ", " + vocabulary);
}

void UnknownTokens::warn(const std::string& name, const char* side) const {
  if (unknown_ == 0) return;
  constexpr std::size_t most = 5;
  std::vector<std::string> some;
  for (auto at = kinds_.begin(); at != kinds_.end() && some.size() < most; ++at)
    some.push_back(in_quotes(text::escaped(*at)));
  complain(
      "warning: {}: {} of {} {} tokens are not in the vocabulary and are read as <unk>: {}{}\n",
      name, unknown_, all_, side, fmt::join(some, ", "),
      kinds_.size() > most ? fmt::format(" and {} more kinds", kinds_.size() - most) : "");
}

std::string source_of(const std::string& line, const Model& model, Index longest,
                      const std::string& place) {
  if (line.find('\t') != line.npos)
    fail(place, "contains a TAB, expected a source without a target");
  if (const auto bad = text::find_bad_byte(line))
    fail(place, "byte {} is not UTF-8, expected text in UTF-8", *bad + 1);
  std::string source = normalized(line, model.nfc());
  check_length(std::ssize(model.source().tokenizer.encode(source)), place, longest);
  return source;
}

std::vector<std::string> tokens_of(const Model& model, const models::Hypothesis& written) {
  std::vector<std::string> tokens;
  for (const std::int32_t word : written.words)
    tokens.push_back(model.target().vocabulary.token(word));
  return tokens;
}

report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written) {
  if (source.empty() || target.empty() || !written.weights.defined()) return {};
  const Tensor weights = written.weights.slice(0, std::ssize(target));
  return {.rows = std::move(target),
          .columns = std::move(source),
          .weights = weights.to_vector<double>(),
          .caption = ""};
}

std::vector<std::vector<double>> rows_of(const report::Heatmap& map) {
  std::vector<std::vector<double>> rows;
  for (auto row = map.weights.begin(); row != map.weights.end(); row += std::ssize(map.columns))
    rows.emplace_back(row, row + std::ssize(map.columns));
  return rows;
}

}  // namespace attune::pairs
