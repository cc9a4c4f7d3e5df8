#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "digits.hpp"
#include "list.hpp"
#include "support/output.hpp"
#include "timing.hpp"

namespace attune::speech {
namespace {

void print_row(const std::string& name, const Counts& c) {
  say("{:<14}{:>11}{:>12.2f} %{:>12.2f} %{:>15}{:>11}{:>12}\n", name, c.utterances,
      100 * c.share_right(), 100 * c.edits.rate(), c.edits.substitutions, c.edits.deletions,
      c.edits.insertions);
}

void print_table(const CountsByLength& counts) {
  say("{:<14}{:>11}{:>14}{:>14}{:>15}{:>11}{:>12}\n", "tokens", "utterances", "all right",
      "token error", "substitutions", "deletions", "insertions");
  for (const auto& [length, some] : counts) print_row(fmt::format("{}", length), some);
  print_row("all", total(counts));
}

nlohmann::ordered_json json_of(const Counts& c) {
  return {{"utterances", c.utterances},
          {"right", c.right},
          {"tokens", c.edits.expected},
          {"token_error", c.edits.rate()},
          {"substitutions", c.edits.substitutions},
          {"deletions", c.edits.deletions},
          {"insertions", c.edits.insertions}};
}

void print(const std::string& name, const CountsByLength& counts, bool json) {
  if (!json) {
    say("{}\n", name);
    print_table(counts);
    return;
  }
  nlohmann::ordered_json line = {{"data", name}, {"all", json_of(total(counts))}};
  for (const auto& [length, some] : counts)
    line["by_length"][std::to_string(length)] = json_of(some);
  say("{}\n", line.dump());
}

/// Half of the ends of tokens within an utterance are less than so many seconds from where they are.
double median_distance(const Model& model, std::span<const Utterance> utterances) {
  std::vector<double> distances;
  const auto aligned = align(model, utterances);
  for (std::size_t i = 0; i < utterances.size(); ++i) {
    for (std::size_t u = 0; u + 1 < utterances[i].ends.size(); ++u) {
      const double end =
          static_cast<double>(utterances[i].ends[u]) / static_cast<double>(model.rate());
      distances.push_back(std::abs(aligned[i][u].end - end));
    }
  }
  const auto middle = distances.begin() + std::ssize(distances) / 2;
  std::ranges::nth_element(distances, middle);
  return *middle;
}

void evaluate_digits(const Model& model, const EvaluateArguments& options) {
  const Digits digits = validation_digits(options.digits, model.rate());
  print("single recordings, 5 to 9", evaluate(model, digits.single(), options.hear), options.json);
  const std::vector<Utterance> joined = strings(digits, 1, options.longest, options.strings, 1);
  if (!options.json) say("\n");
  print("strings of them", evaluate(model, joined, options.hear), options.json);
  if (options.json || options.longest < 2 || nn::load_text(model.metadata(), "attends") == "no") {
    return;
  }
  say("\nWhere attention puts the end of a digit, and where it is: {:.3f} s apart (median)\n",
      median_distance(model, joined));
}

}  // namespace

int evaluate(const EvaluateArguments& options) {
  if (options.digits.empty() == options.lists.empty())
    fail("evaluate", "lists, or --digits DIRECTORY, were expected");
  const Model model = Model::load(options.model);
  if (!options.digits.empty()) evaluate_digits(model, options);
  for (const std::string& list : options.lists) {
    const auto utterances = read_utterances(list, model.codec(), model.rate());
    print(list, evaluate(model, utterances, options.hear), options.json);
  }
  return 0;
}

}  // namespace attune::speech
