#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "support/output.hpp"

namespace attune::transduce {
namespace {

constexpr CountNames names = {.examples = "pairs", .right = "exact match"};

void print(const NamedRows& data, const Evaluation& result, const text::Vocabulary& target) {
  const Counts all = total(result.counts);
  say("{}\nword error {:.2f} %, token error {:.2f} %\n\n", printable(data.name),
      100 * word_error(all), 100 * all.edits.rate());
  print_table(result.counts, names);
  const auto confusions = most_frequent(result.confusions, target, 10);
  if (!confusions.empty()) say("\n{:<10}  {:<10}  {:>6}\n", "expected", "written", "times");
  for (const auto& row : confusions)
    say("{:<10}  {:<10}  {:>6}\n", printable(row[0]), printable(row[1]), row[2]);
  std::vector<Mistake> mistakes;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const Written& one = result.written[i];
    if (one.right) continue;
    mistakes.push_back({one.probability, one.target, data.rows[i].target, data.rows[i].source});
  }
  print_mistakes(std::move(mistakes), 24);
}

/// One warning for a file: it may be in another language than the model.
void warn_of_unknown(const text::Codec& source, const NamedRows& data) {
  constexpr std::ptrdiff_t shown = 5;
  std::set<std::string> kinds;
  std::size_t tokens = 0, unknown = 0;
  for (const Row& row : data.rows) {
    for (const std::string& token : source.tokenizer.encode(row.source)) {
      ++tokens;
      if (source.vocabulary.id(token) != text::Vocabulary::unknown) continue;
      ++unknown;
      kinds.insert(fmt::format("'{}'", printable(token)));
    }
  }
  if (unknown == 0) return;
  const auto end = std::next(kinds.begin(), std::min(shown, std::ssize(kinds)));
  const std::vector<std::string> first(kinds.begin(), end);
  complain(
      "warning: {}: {} of {} source tokens were never seen in training and are read as <unk>: "
      "{}{}\n",
      printable(data.name), unknown, tokens, fmt::join(first, ", "),
      std::ssize(kinds) > shown ? fmt::format(" and {} more kinds", std::ssize(kinds) - shown)
                                : "");
}

nlohmann::ordered_json json_line(const Counts& counts) {
  auto json = nlohmann::ordered_json::parse(json_of(counts, names));
  json["word_error"] = word_error(counts);
  return json;
}

void print_json(const NamedRows& data, const Evaluation& result, const text::Vocabulary& target,
                std::size_t models) {
  nlohmann::ordered_json json = {
      {"data", data.name}, {"models", models}, {"all", json_line(total(result.counts))}};
  for (const auto& [length, some] : result.counts)
    json["by_length"][std::to_string(length)] = json_line(some);
  json["confusions"] = nlohmann::ordered_json::array();
  for (const auto& row : most_frequent(result.confusions, target, 100)) {
    json["confusions"].push_back(
        {{"expected", row[0]}, {"written", row[1]}, {"times", std::stol(row[2])}});
  }
  say("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

NamedRows rows_for(Models models, const std::string& file, text::Columns columns) {
  if (!file.empty()) return {file, read_pairs(file, columns_for(models.front(), columns))};
  const TrainOptions trained = train_options_from(models.front().metadata());
  if (!trained.valid.empty()) return {trained.valid, read_pairs(trained.valid, trained.columns)};
  Data data = read_data(trained);
  for (const Model& model : models) {
    if (data.fingerprint() != nn::load_text(model.metadata(), "pairs"))
      fail(trained.train,
           "which of its pairs were held out of every training is not known, as the pairs have "
           "changed or the models differ in it: a file to measure on was expected");
  }
  return {"pairs held out of " + trained.train, std::move(data.valid)};
}

int evaluate_files(const EvaluateArguments& options) {
  const std::vector<Model> models = load_models(options.models);
  const text::Vocabulary& target = models.front().target().vocabulary;
  std::vector<std::string> files = options.files;
  if (files.empty()) files.emplace_back();
  for (const std::string& file : files) {
    const NamedRows data = rows_for(models, file, options.columns);
    warn_of_unknown(models.front().source(), data);
    const Evaluation result = evaluate(models, data.rows, options.beam);
    options.json ? print_json(data, result, target, models.size()) : print(data, result, target);
  }
  return 0;
}

}  // namespace attune::transduce
