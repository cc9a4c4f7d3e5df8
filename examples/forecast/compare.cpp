#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"

namespace attune::forecast {
namespace {

/// What is changed of the options.
struct Variant {
  std::string name;
  void (*change)(TrainOptions& options);
};

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> all = {
      {"linear",
       [](TrainOptions& o) {
         o.network.kind = Kind::linear;
         o.network.look_back = 336;
         o.loss = Loss::squared;
         o.rate = 5e-3;
         o.batch = 32;
         o.steps *= 3;
       }},
      {"lstm",
       [](TrainOptions& o) {
         o.network.kind = Kind::lstm;
         o.network.look_back = 96;
         o.network.hidden = 64;
         o.loss = Loss::squared;
         o.batch = 32;
       }},
      {"segments", [](TrainOptions&) {}},
      {"segments-location", [](TrainOptions& o) { o.network.score.kind = "location"; }},
      {"segments-local-p",
       [](TrainOptions& o) {
         o.network.attention = {.window = nn::Window::local_predictive, .half_width = 4};
       }},
      {"segments-no-attention", [](TrainOptions& o) { o.network.attends = Attends::no; }}};
  return all;
}

/// A training of the table.
struct Cell {
  std::string name;
  TrainOptions options;
};

Cell cell(const CompareArguments& options, const std::string& name, Index horizon, Index seed) {
  Cell cell{name, options.train};
  variant_named(all_variants(), name).change(cell.options);
  cell.options.network.horizon = horizon;
  cell.options.seed = static_cast<std::uint64_t>(seed);
  cell.options.out /= fmt::format("{}-{}-{}", name, horizon, seed);
  return cell;
}

/// Trains it, and measures its best weights on the test part.
std::vector<double> run(const TrainOptions& options) {
  train_or_go_on(options, train, stored_options);
  const Model model = Model::load(options.out / "best.safetensors");
  const TestData data = test_data(model);
  const Errors errors = measure(model, data.values, data.rows);
  return {errors.mse, errors.mae};
}

void print_table(const CompareArguments& options, const char* what,
                 const std::vector<std::vector<Spread>>& rows) {
  constexpr int width = 15;
  say("\n{:<22}", what);
  for (const Index horizon : options.horizons) say("{:>{}}", horizon, width);
  say("\n");
  for (std::size_t v = 0; v < rows.size(); ++v) {
    say("{:<22}", options.variants[v]);
    for (const Spread& spread : rows[v]) say("{:>{}}", spread.text(), width);
    say("\n");
  }
}

}  // namespace

std::vector<std::string> variant_names() { return names_of(all_variants()); }

int compare(const CompareArguments& options) {
  check_each_once("--variants", options.variants);
  check_each_once("--horizons", options.horizons);
  std::vector<Cell> cells;
  for (const std::string& name : options.variants) {
    for (const Index horizon : options.horizons) {
      for (Index seed = 1; seed <= options.seeds; ++seed) {
        cells.push_back(cell(options, name, horizon, seed));
        check(cells.back().options.network);
      }
    }
  }
  using Rows = std::vector<std::vector<Spread>>;
  Rows mse(options.variants.size(), std::vector<Spread>(options.horizons.size())), mae = mse;
  measure_runs(
      cells.size(), options.jobs, [&](std::size_t i) { return cells[i].options.out; },
      [&](std::size_t i) { return run(cells[i].options); },
      [&](std::size_t i, const std::vector<double>& measures, const std::string& ended,
          const std::string& left) {
        const double squared = measures.at(0), absolute = measures.at(1);
        const std::size_t seeds = static_cast<std::size_t>(options.seeds), place = i / seeds;
        const std::size_t v = place / options.horizons.size(), h = place % options.horizons.size();
        mse[v][h].values.push_back(squared);
        mae[v][h].values.push_back(absolute);
        say("{}  {:<22} {:>4} ahead, seed {}: mse {:.4f}  mae {:.4f}  {}\n", ended, cells[i].name,
            cells[i].options.network.horizon, cells[i].options.seed, squared, absolute, left);
      });
  print_table(options, "squared error", mse);
  print_table(options, "absolute error", mae);
  return 0;
}

}  // namespace attune::forecast
