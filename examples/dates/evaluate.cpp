#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "metrics.hpp"

namespace attune::dates {
namespace {

/// The mistakes the model was surest of.
void print_worst(std::span<const Row> rows, std::span<const Prediction> predictions) {
  constexpr std::size_t most = 10;
  std::vector<std::size_t> mistakes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!predictions[i].exact) mistakes.push_back(i);
  }
  if (mistakes.empty()) return;
  std::ranges::stable_sort(mistakes, std::ranges::greater(),
                           [&](std::size_t i) { return predictions[i].probability; });
  fmt::print("\n{} mistake{}{}\nprobability  written     expected    source\n", mistakes.size(),
             mistakes.size() == 1 ? "" : "s",
             mistakes.size() > most
                 ? fmt::format("; the {} that were written with the greatest probability", most)
                 : "");
  mistakes.resize(std::min(mistakes.size(), most));
  for (std::size_t i : mistakes) {
    fmt::print("{:11.4f}  {:<10}  {:<10}  {}\n", predictions[i].probability,
               printable(predictions[i].written), printable(rows[i].target),
               printable(rows[i].source));
  }
}

}  // namespace

int evaluate_file(const EvaluateArguments& options) {
  const std::vector<Row> rows = read_tsv(options.file);
  const Model model = Model::load(options.model);
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
