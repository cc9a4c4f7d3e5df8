#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "program.hpp"
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

/// Token errors in percent of the best weights, on strings that no seed changes.
std::vector<double> token_errors(const TrainOptions& options) {
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

}  // namespace

std::vector<std::string> variant_names() { return names_of(all_variants()); }

int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = variant_names();
  check_each_once("--variants", options.variants);
  std::vector<NamedRun<TrainOptions>> runs;
  for (const std::string& name : options.variants) {
    const Variant& variant = variant_named(all_variants(), name);
    RecogniserOptions& network =
        runs.emplace_back(NamedRun<TrainOptions>{name, options.train}).options.network;
    network.attends = variant.attends;
    network.score.kind = variant.score;
    network.attention.window = variant.window;
    check(network);
  }
  if (options.train.digits.empty()) fail("--digits", "a directory was expected");
  const auto errors =
      compare_runs<TrainOptions>(runs, options, 2, train, stored_options, token_errors);
  const Index longest = options.train.longest;
  const std::string longer = fmt::format("{} to {}", longest + 1, longest + 5);
  print_table("token error, %",
              {"single digits", fmt::format("1 to {}", longest), longer, longer + ", no CTC"},
              options.variants, errors, 2, 18);
  return 0;
}

}  // namespace attune::speech
