#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/bleu_by_length.hpp>
#include <attune/models/metrics/bootstrap.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "line_lengths.hpp"
#include "support/run_directory.hpp"

namespace attune::translate {
namespace {

struct Result {
  std::string name;
  Index parameters = 0;
  double perplexity = 0, bleu = 0;
  std::vector<metrics::BleuStatistics> statistics;  // of each sentence
  std::vector<metrics::LengthBucket> by_length;
};

Result result_of(const std::filesystem::path& path, const std::string& name,
                 const CompareArguments& o) {
  const Model model = Model::load(path);
  const ReferenceText text =
      reference_text(o.source, o.target, columns_for(model, o.columns), model.codecs(),
                     longest_read(alone(model), longest_of_pair));
  const auto statistics = metrics::bleu_statistics(
      translations(alone(model), text.sources, o.search).lines, text.references, o.bleu);
  return {
      .name = name,
      .parameters = model.parameters().count(),
      .perplexity = std::exp(mean_loss(alone(model), text.pairs)),
      .bleu = metrics::bleu(statistics, o.bleu).bleu,
      .statistics = statistics,
      .by_length = metrics::bleu_by_length(statistics, source_lengths(text), o.lengths, o.bleu)};
}

std::string range_of(const metrics::LengthBucket& bucket) {
  if (bucket.longest == bucket.shortest) return std::to_string(bucket.shortest);
  return bucket.longest ? fmt::format("{}-{}", bucket.shortest, *bucket.longest)
                        : fmt::format("{}-", bucket.shortest);
}

void print_header(const Result& first, std::size_t width) {
  fmt::print("{:{}} {:>11} {:>10} {:>6} {:>7} {:>7} ", "model", width, "parameters", "perplexity",
             "BLEU", "change", "p");
  for (const auto& bucket : first.by_length) fmt::print(" {:>6}", range_of(bucket));
  fmt::print("\n{:{}} {:>46}", "sentences", width, "");
  for (const auto& bucket : first.by_length) fmt::print(" {:>6}", bucket.sentences);
  fmt::print("\n");
}

void print_row(const Result& result, const Result& first, std::size_t width,
               const CompareArguments& o) {
  fmt::print("{:{}} {:>11} {:>10.2f} {:>6.2f} ", result.name, width, result.parameters,
             result.perplexity, result.bleu);
  if (&result == &first) {
    fmt::print("{:>7} {:>7} ", "", "");
  } else {
    const auto paired = metrics::paired_bootstrap(result.statistics, first.statistics, {}, o.bleu);
    fmt::print("{:>+7.2f} {:>7.3f} ", paired.difference, paired.p_value);
  }
  for (const auto& bucket : result.by_length)
    fmt::print(" {:>6}", bucket.sentences > 0 ? fmt::format("{:.2f}", bucket.score.bleu) : "-");
  fmt::print("\n");
}

void print_json(const Result& result) {
  nlohmann::ordered_json by_length;
  for (const auto& bucket : result.by_length) {
    auto& bleu = by_length[range_of(bucket)];  // null without sentences
    if (bucket.sentences > 0) bleu = bucket.score.bleu;
  }
  const nlohmann::ordered_json json = {{"model", result.name},
                                       {"parameters", result.parameters},
                                       {"perplexity", result.perplexity},
                                       {"bleu", result.bleu},
                                       {"by_length", by_length}};
  fmt::print("{}\n", json.dump());
}

}  // namespace

int compare(const CompareArguments& o) {
  if (!o.target.empty() && o.columns == text::Columns::target_first)
    throw Error("target excludes --swap");
  if (o.models.empty()) {
    fail("models",
         "one was expected after source and target, which is \"\" when the source is a TSV "
         "of both");
  }
  std::vector<Result> results;
  const std::vector<std::string> names = run_names(o.models);
  for (std::size_t i = 0; i < names.size(); ++i) {
    results.push_back(result_of(o.models[i], names[i], o));
  }
  std::size_t width = std::string_view("sentences").size();
  for (const Result& result : results) width = std::max(width, result.name.size());
  if (!o.json) print_header(results.front(), width);
  for (const Result& result : results) {
    o.json ? print_json(result) : print_row(result, results.front(), width, o);
  }
  return 0;
}

}  // namespace attune::translate
