#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "support/output.hpp"
#include "tsv.hpp"

namespace attune::dates {
namespace {

using report::AlignedWord;

std::string place(const AlignArguments& options, const Row& row) {
  return fmt::format("{}:{}", options.file, row.line);
}

/// A character without a number of its own would be forced as <unk>.
void check_target(const Model& model, const Row& row, const std::string& place) {
  for (const std::string& point : text::code_points(row.target)) {
    if (model.target().vocabulary.id(point) == text::Vocabulary::unknown)
      fail(place, fmt::format("the model cannot write '{}'", point));
  }
}

/// A row for each character of the target: the weights that speak of it.
report::Heatmap heatmap(const Model& model, const Row& row, models::Hypothesis forced,
                        AlignedWord rule) {
  if (rule == AlignedWord::previous)
    forced.weights = forced.weights.slice(1, forced.weights.dim(0));
  return attune::heatmap(model, text::code_points(row.source), forced);
}

std::vector<AlignedPair> pairs_of(const Model& model, std::span<const Row> rows, AlignedWord rule) {
  const bool attends = models::attends(model.options().network);
  const std::vector<models::Hypothesis> forced = model.force(encoded(model, rows));
  std::vector<AlignedPair> pairs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    pairs.push_back({.source = rows[i].source,
                     .target = rows[i].target,
                     .map = attends ? heatmap(model, rows[i], forced[i], rule) : report::Heatmap{},
                     .log_probability = forced[i].log_probability,
                     .token_log_probabilities = forced[i].word_log_probabilities});
  }
  return pairs;
}

}  // namespace

int align(const AlignArguments& options) {
  if (!options.output.out.empty())
    require_writable(options.output.out, {options.model, options.file});
  const Model model = Model::load(options.model);
  const std::vector<Row> rows = read_tsv(options.file, columns_for(model, options.columns));
  const AlignFormat format = format_of(options.output, AlignFormat::pharaoh);
  if (format != AlignFormat::scores && !models::attends(model.options().network)) {
    fail(options.model.string(), "the model has no attention: --format scores was expected");
  }
  for (const Row& row : rows) check_target(model, row, place(options, row));
  write_alignments(pairs_of(model, rows, options.rule), format, options.output,
                   "Dates and where a model finds their parts");
  return 0;
}

}  // namespace attune::dates
