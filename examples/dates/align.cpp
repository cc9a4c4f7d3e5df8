#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <attune/models/forced.hpp>
#include <attune/models/report/page.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/progress.hpp"
#include "support/report_page.hpp"
#include "support/terminal.hpp"
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

std::vector<models::Hypothesis> force(const Model& model, std::span<const Row> rows) {
  constexpr std::size_t batch_size = 100;
  std::vector<models::Hypothesis> forced;
  for (std::size_t begin = 0; begin < rows.size(); begin += batch_size) {
    std::vector<text::Pair> pairs;
    for (const Row& row : rows.subspan(begin, std::min(batch_size, rows.size() - begin)))
      pairs.push_back(model.encode(row.source, row.target));
    std::ranges::move(models::force_decode(model.network(), text::make_batch(pairs)),
                      std::back_inserter(forced));
  }
  return forced;
}

/// A row for each character of the target: the weights that speak of it.
report::Heatmap heatmap(const Model& model, const Row& row, models::Hypothesis forced,
                        AlignedWord rule) {
  if (rule == AlignedWord::previous)
    forced.weights = forced.weights.slice(1, forced.weights.dim(0));
  return attune::heatmap(model, text::code_points(row.source), forced);
}

std::string caption(const Row& row, const models::Hypothesis& forced) {
  return fmt::format("{} → {}, log-probability {:.4f}", isolated(printable(row.source)),
                     isolated(printable(row.target)), forced.log_probability);
}

std::string scores(const Row& row, const models::Hypothesis& forced) {
  return fmt::format("{}\t{}\t{:.6g}\t{:.6g}\n", row.source, row.target, forced.log_probability,
                     fmt::join(forced.word_log_probabilities, " "));
}

/// One pair in every form but html.
std::string form(const AlignArguments& options, const report::Heatmap& map) {
  constexpr auto type = DType::f32;  // what the model computes in
  switch (options.format) {
    case AlignFormat::pharaoh:
      return report::pharaoh(report::argmax_links(map)) + "\n";
    case AlignFormat::tsv:
      return report::tsv(map, type) + "\n";
    case AlignFormat::json:
      return report::json(map, type) + "\n";
    case AlignFormat::npy:
      return report::npy(map, type);
    case AlignFormat::svg:
      return report::svg(map) + "\n";
    default: {
      const bool terminal = options.out.empty() && isatty(STDOUT_FILENO);
      return report::terminal(map, {.colour = terminal, .width = terminal_width()}) + "\n";
    }
  }
}

std::string make_output(const Model& model, const AlignArguments& options,
                        std::span<const Row> rows) {
  const std::vector<models::Hypothesis> forced = force(model, rows);
  std::string output;
  report::Page page("Dates and where a model finds their parts");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (options.format == AlignFormat::scores) {
      output += scores(rows[i], forced[i]);
      continue;
    }
    const report::Heatmap map = heatmap(model, rows[i], forced[i], options.rule);
    if (options.format == AlignFormat::html) {
      page.figure(report::svg(map), caption(rows[i], forced[i]));
    } else {
      if (options.format == AlignFormat::terminal) output += caption(rows[i], forced[i]) + "\n";
      output += form(options, map);
    }
  }
  return options.format == AlignFormat::html ? page.html() : output;
}

}  // namespace

int align(const AlignArguments& options) {
  const std::vector<Row> rows = read_tsv(options.file);
  const Model model = Model::load(options.model);
  if (options.format != AlignFormat::scores && !models::attends(model.options().network)) {
    fail(options.model.string(), "the model has no attention: --format scores was expected");
  }
  if (options.format == AlignFormat::svg && rows.size() > 1) {
    fail("--format", fmt::format("svg draws one pair, not the {} of {}: html was expected",
                                 rows.size(), options.file));
  }
  for (const Row& row : rows) check_target(model, row, place(options, row));
  const std::string output = make_output(model, options, rows);
  if (options.out.empty()) {  // what is drawn has colours
    fmt::print("{}", options.format == AlignFormat::terminal ? output : for_output(output));
  } else {
    write_file(options.out, output);
  }
  return 0;
}

}  // namespace attune::dates
