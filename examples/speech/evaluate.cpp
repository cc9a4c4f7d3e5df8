#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/report/log.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "program.hpp"
#include "support/output.hpp"
#include "support/processes.hpp"

namespace attune::speech {
namespace {

constexpr CountNames names = {.examples = "utterances", .right = "all right"};

void print(const std::string& name, const CountsByLength& counts, bool json) {
  if (!json) {
    say("{}\n", printable(name));
    print_table(counts, names);
    return;
  }
  std::vector<std::string> by_length;
  for (const auto& [length, some] : counts)
    by_length.push_back(fmt::format("\"{}\": {}", length, json_of(some, names)));
  const std::string line =
      with_field(report::log_line({{"data", name}}), "all", json_of(total(counts), names));
  say("{}\n", with_field(line, "by_length", fmt::format("{{{}}}", fmt::join(by_length, ", "))));
}

/// Median distance in seconds between the ends of tokens that attention gives and the true ones;
/// the last token of each utterance is left out.
double median_distance(const Model& model, std::span<const Utterance> utterances) {
  std::vector<double> distances;
  for (const Utterance& one : utterances) {
    stop_if_interrupted();
    const std::vector<Timed> tokens = align(model, one);
    for (std::size_t u = 0; u + 1 < one.ends.size(); ++u) {
      const double end = static_cast<double>(one.ends[u]) / static_cast<double>(model.rate());
      distances.push_back(std::abs(tokens[u].end - end));
    }
  }
  const auto middle = distances.begin() + std::ssize(distances) / 2;
  std::ranges::nth_element(distances, middle);
  return *middle;
}

void evaluate_digits(const Model& model, const EvaluateArguments& options) {
  const Digits digits(options.digits, options.first, options.last, model.rate());
  print(fmt::format("single recordings, {} to {}", options.first, options.last),
        evaluate(model, digits.single(), options.hear), options.json);
  const std::vector<Utterance> joined = strings(digits, 1, options.longest, options.strings, 1);
  if (!options.json) say("\n");
  print("strings of them", evaluate(model, joined, options.hear), options.json);
  if (options.json || options.longest < 2 || nn::load_text(model.metadata(), "attends") == "no") {
    return;
  }
  say("\nDistance of the end of a digit by attention from its true end: {:.3f} s (median)\n",
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
