#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "evaluation.hpp"

namespace attune::dates {
namespace {

void print_worst(std::span<const Row> rows, std::span<const Prediction> predictions) {
  std::vector<Mistake> mistakes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = predictions[i];
    if (!p.exact) mistakes.push_back({p.probability, p.written, rows[i].target, rows[i].source});
  }
  print_mistakes(std::move(mistakes), std::string_view("YYYY-MM-DD").size());
}

}  // namespace

int evaluate_file(const EvaluateArguments& options) {
  const Model model = Model::load(options.model);
  const std::vector<Row> rows = read_tsv(options.file, columns_for(model, options.columns));
  const Evaluation result = evaluate(model, rows, options.beam, true);
  if (options.json) {
    nlohmann::ordered_json json{{"examples", rows.size()},
                                {"exact_match", result.exact_match},
                                {"character_accuracy", result.character_accuracy},
                                {"gold_attention", nullptr}};
    if (result.gold_attention) json["gold_attention"] = *result.gold_attention;
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("examples            {:>8}\n", rows.size());
  fmt::print("exact match         {:>8.2f} %\n", 100 * result.exact_match);
  fmt::print("character accuracy  {:>8.2f} %\n", 100 * result.character_accuracy);
  if (result.gold_attention) fmt::print("gold attention      {:>8.4f}\n", *result.gold_attention);
  print_worst(rows, result.predictions);
  return 0;
}

}  // namespace attune::dates
