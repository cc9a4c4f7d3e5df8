#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "program.hpp"
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

/// On the test part.
std::vector<double> test_errors(const TrainOptions& options) {
  const Model model = Model::load(options.out / "best.safetensors");
  const TestData data = test_data(model);
  const Errors errors = measure(model, data.values, data.rows);
  return {errors.mse, errors.mae};
}

}  // namespace

std::vector<std::string> variant_names() { return names_of(all_variants()); }

int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = variant_names();
  check_each_once("--variants", options.variants);
  check_each_once("--horizons", options.horizons);
  std::vector<NamedRun<TrainOptions>> runs;
  for (const std::string& name : options.variants) {
    for (const Index horizon : options.horizons) {
      runs.push_back({fmt::format("{}-{}", name, horizon), options.train});
      variant_named(all_variants(), name).change(runs.back().options);
      runs.back().options.network.horizon = horizon;
      check(runs.back().options.network);
    }
  }
  const auto errors =
      compare_runs<TrainOptions>(runs, options, 4, train, stored_options, test_errors);
  std::vector<std::string> horizons;
  for (const Index horizon : options.horizons) horizons.push_back(std::to_string(horizon));
  for (const std::size_t measure : {0, 1}) {
    std::vector<std::vector<Spread>> rows(options.variants.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      rows[i / horizons.size()].push_back(errors[i][measure]);
    print_table(measure == 0 ? "squared error" : "absolute error", horizons, options.variants, rows,
                3, 15);
  }
  return 0;
}

}  // namespace attune::forecast
