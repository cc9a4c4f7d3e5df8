#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "commands.hpp"
#include "digits.hpp"
#include "evaluation.hpp"
#include "support/checkpoint.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"
#include "support/processes.hpp"

namespace attune::speech {
namespace {

/// What is changed of the network.
struct Variant {
  std::string name;
  void (*change)(RecogniserOptions& options);
};

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> all = {
      {"location-aware", [](RecogniserOptions&) {}},
      {"content", [](RecogniserOptions& o) { o.score.kind = "additive"; }},
      {"local-m",
       [](RecogniserOptions& o) {
         o.score.kind = "additive";
         o.attention.window = nn::Window::local_monotonic;
       }},
      {"no-attention", [](RecogniserOptions& o) { o.attends = Attends::no; }}};
  return all;
}

const Variant& variant(const std::string& name) {
  for (const Variant& one : all_variants()) {
    if (one.name == name) return one;
  }
  fail("--variants", fmt::format("'{}' is not one of {}", name, fmt::join(variant_names(), ", ")));
}

/// A training of the table.
struct Cell {
  std::string name;
  TrainOptions options;
};

Cell cell(const CompareArguments& options, const std::string& name, Index seed) {
  Cell cell{name, options.train};
  variant(name).change(cell.options.network);
  cell.options.seed = static_cast<std::uint64_t>(seed);
  cell.options.out /= fmt::format("{}-{}", name, seed);
  return cell;
}

/// The columns of the table: token errors in percent.
struct Errors {
  double single, trained, longer;
};

/// Trains it, and measures its best weights on strings that no seed changes.
std::string run(const TrainOptions& options) {
  train_or_go_on(options, train, stored_options);
  const Model model = Model::load(options.out / "best.safetensors");
  const Digits digits = validation_digits(options.digits, model.rate());
  const auto percent = [&](const std::vector<Utterance>& utterances) {
    return 100 * total(evaluate(model, utterances)).edits.rate();
  };
  return fmt::format("{} {} {}", percent(digits.single()),
                     percent(strings(digits, 1, options.longest, 100, 1)),
                     percent(strings(digits, options.longest + 1, options.longest + 5, 100, 1)));
}

struct Row {
  Spread single, trained, longer;
};

void print_table(const CompareArguments& options, const std::vector<Row>& rows) {
  const Index longest = options.train.longest;
  say("\n{:<16}{:>18}{:>18}{:>18}\n", "token error, %", "single digits",
      fmt::format("1 to {}", longest), fmt::format("{} to {}", longest + 1, longest + 5));
  for (std::size_t v = 0; v < rows.size(); ++v) {
    say("{:<16}{:>18}{:>18}{:>18}\n", options.variants[v], rows[v].single.text(2),
        rows[v].trained.text(2), rows[v].longer.text(2));
  }
}

}  // namespace

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const Variant& one : all_variants()) names.push_back(one.name);
  return names;
}

int compare(const CompareArguments& options) {
  check_each_once("--variants", options.variants);
  if (options.train.digits.empty()) fail("--digits", "a directory was expected");
  std::vector<Cell> cells;
  for (const std::string& name : options.variants) {
    for (Index seed = 1; seed <= options.seeds; ++seed) cells.push_back(cell(options, name, seed));
  }
  for (const Cell& one : cells) check(one.options.network);
  std::vector<Row> rows(options.variants.size());
  Countdown countdown(cells.size());
  in_processes(
      cells.size(), options.jobs,
      [&](std::size_t i) {
        set_threads(1);
        return reading(cells[i].options.out, [&] { return run(cells[i].options); });
      },
      [&](std::size_t i, const std::string& text) {
        Errors e{};
        std::sscanf(text.c_str(), "%lf %lf %lf", &e.single, &e.trained, &e.longer);
        Row& row = rows[i / static_cast<std::size_t>(options.seeds)];
        row.single.values.push_back(e.single);
        row.trained.values.push_back(e.trained);
        row.longer.values.push_back(e.longer);
        const auto [ended, left] = countdown.next();
        say("{}  {:<16} seed {}: single {:.2f} %  trained lengths {:.2f} %  longer {:.2f} %  {}\n",
            ended, cells[i].name, cells[i].options.seed, e.single, e.trained, e.longer, left);
        std::fflush(stdout);
      });
  print_table(options, rows);
  return 0;
}

}  // namespace attune::speech
