#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "digits.hpp"
#include "evaluation.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"

namespace attune::speech {
namespace {

/// What is set of the network.
struct Variant {
  std::string name;
  Attends attends;
  const char* score;
  nn::Window window;
};

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> all = {
      {"location-aware", Attends::yes, "location_aware", nn::Window::global},
      {"content", Attends::yes, "additive", nn::Window::global},
      {"local-m", Attends::yes, "additive", nn::Window::local_monotonic},
      {"no-attention", Attends::no, "additive", nn::Window::global}};
  return all;
}

/// A training of the table.
struct Cell {
  std::string name;
  TrainOptions options;
};

Cell cell(const CompareArguments& options, const std::string& name, Index seed) {
  Cell cell{name, options.train};
  const Variant& variant = variant_named(all_variants(), name);
  cell.options.network.attends = variant.attends;
  cell.options.network.score.kind = variant.score;
  cell.options.network.attention.window = variant.window;
  cell.options.seed = static_cast<std::uint64_t>(seed);
  cell.options.out /= fmt::format("{}-{}", name, seed);
  return cell;
}

/// Trains it, and measures its best weights on strings that no seed changes.
std::vector<double> run(const TrainOptions& options) {
  train_or_go_on(options, train, stored_options);
  const Model model = Model::load(options.out / "best.safetensors");
  const Digits digits = validation_digits(options.digits, model.rate());
  const auto percent = [&](const std::vector<Utterance>& utterances, const HearOptions& hear) {
    return 100 * total(evaluate(model, utterances, hear)).edits.rate();
  };
  const std::vector<Utterance> longer =
      strings(digits, options.longest + 1, options.longest + 5, 100, 1);
  return {percent(digits.single(), {}), percent(strings(digits, 1, options.longest, 100, 1), {}),
          percent(longer, {}), percent(longer, {.ctc = false})};
}

/// Token errors in percent.
constexpr std::size_t columns = 4;
using Row = std::array<Spread, columns>;

void print_table(const CompareArguments& options, const std::vector<Row>& rows) {
  const Index longest = options.train.longest;
  const std::string longer = fmt::format("{} to {}", longest + 1, longest + 5);
  say("\n{:<16}{:>18}{:>18}{:>18}{:>18}\n", "token error, %", "single digits",
      fmt::format("1 to {}", longest), longer, longer + ", no CTC");
  for (std::size_t v = 0; v < rows.size(); ++v) {
    say("{:<16}", options.variants[v]);
    for (const Spread& spread : rows[v]) say("{:>18}", spread.text(2));
    say("\n");
  }
}

}  // namespace

std::vector<std::string> variant_names() { return names_of(all_variants()); }

int compare(const CompareArguments& options) {
  check_each_once("--variants", options.variants);
  std::vector<Cell> cells;
  for (const std::string& name : options.variants) {
    for (Index seed = 1; seed <= options.seeds; ++seed) cells.push_back(cell(options, name, seed));
  }
  for (const Cell& one : cells) check(one.options.network);
  if (options.train.digits.empty()) fail("--digits", "a directory was expected");
  std::vector<Row> rows(options.variants.size());
  measure_runs(
      cells.size(), options.jobs, [&](std::size_t i) { return cells[i].options.out; },
      [&](std::size_t i) { return run(cells[i].options); },
      [&](std::size_t i, const std::vector<double>& e, const std::string& ended,
          const std::string& left) {
        for (std::size_t c = 0; c < columns; ++c)
          rows[i / static_cast<std::size_t>(options.seeds)][c].values.push_back(e[c]);
        say("{}  {:<16} seed {}: {:.2f}  {:.2f}  {:.2f}  {:.2f}  {}\n", ended, cells[i].name,
            cells[i].options.seed, e[0], e[1], e[2], e[3], left);
      });
  print_table(options, rows);
  return 0;
}

}  // namespace attune::speech
