#include <cmath>

#include <fmt/format.h>

#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/log.hpp>

#include "commands.hpp"
#include "support/chart.hpp"
#include "support/output.hpp"
#include "support/progress.hpp"
#include "support/report_page.hpp"
#include "support/run_directory.hpp"

namespace attune::transduce {
namespace {

using Rows = std::vector<std::vector<std::string>>;

void add_summary(report::Page& page, Models models, const NamedRows& data, const Evaluation& result,
                 Index beam) {
  const Counts all = total(result.counts);
  double seconds = 0;
  for (const Model& model : models) seconds += seconds_in(model.metadata());
  page.definitions({{"Word error", fmt::format("{:.2f} %", 100 * word_error(all))},
                    {"Token error", fmt::format("{:.2f} %", 100 * all.edits.rate())},
                    {"Pairs", grouped(all.examples)},
                    {"Models", std::to_string(models.size())},
                    {"Parameters of each", grouped(models.front().parameters().count())},
                    {"Trained for", duration(seconds)}});
  const Model& first = models.front();
  page.paragraph(fmt::format(
      "Model: {}; it reads {}, and writes {}. Measured on {}, with a beam of {}. A word "
      "error is a target with any mistake; token errors are substitutions, deletions and "
      "insertions.",
      first.options().name, description(first.source()), description(first.target()), data.name,
      beam));
}

void add_errors(report::Page& page, const Evaluation& result, const text::Vocabulary& target) {
  Rows rows;
  for (const auto& [lengths, c] : rows_by_length(result.counts)) {
    rows.push_back({lengths, grouped(c.examples), fmt::format("{:.2f}", 100 * word_error(c)),
                    fmt::format("{:.2f}", 100 * c.edits.rate()), grouped(c.edits.substitutions),
                    grouped(c.edits.deletions), grouped(c.edits.insertions)});
  }
  page.heading("Errors by length")
      .table({"tokens", "pairs", "word error, %", "token error, %", "substi\u00adtutions",
              "dele\u00adtions", "inser\u00adtions"},  // which break where there is no room
             rows);
  Rows confusions = most_frequent(result.confusions, target, 20);
  if (confusions.empty()) return;
  for (std::vector<std::string>& row : confusions) row[2] = grouped(std::stol(row[2]));
  page.heading("What was taken for what");
  page.paragraph("∅ is nothing: a token that is missing, or one too many.");
  page.table({"expected", "written", "times"}, confusions);
}

void add_curves(report::Page& page, std::span<const std::filesystem::path> models) {
  report::Chart errors{.title = "Word error of the validation pairs",
                       .x_label = "step",
                       .y_label = "percent (greedy search)",
                       .series = {}},
      loss{.title = "Training loss",
           .x_label = "step",
           .y_label = "cross-entropy per token",
           .series = {},
           .log_y = true};
  const std::vector<std::string> names = run_names(models);
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::filesystem::path path = models[i].parent_path() / "log.jsonl";
    if (!std::filesystem::exists(path)) continue;
    const auto log = report::read_log(path.string());
    const std::string name = models.size() > 1 ? names[i] : "";
    errors.series.push_back(report::curve(log, "word_error", name, 100));
    loss.series.push_back(report::curve(log, "loss", name));
  }
  if (errors.series.empty()) return;
  page.heading("Learning curves");
  page.figure(report::svg(errors), "");
  page.figure(report::svg(loss), "With dropout and label smoothing, where there are any.");
}

/// What was trained, and on what: "transduce-model: fre_train.tsv".
std::string title(Models models, std::span<const std::filesystem::path> files) {
  const std::filesystem::path train = train_options_from(models.front().metadata()).train;
  return fmt::format(
      "{}: {}",
      models.size() > 1 ? fmt::format("{} models", models.size()) : run_names(files).front(),
      train.filename().string());
}

/// Where the models look, from the shortest source to the longest; or, without attention, what they
/// write.
void add_examples(report::Page& page, Models models, std::span<const Row> rows,
                  const ReportArguments& options) {
  const Codecs& codecs = models.front().codecs();
  std::vector<std::vector<std::string>> tokens;
  std::vector<std::size_t> lengths;
  for (const Row& row : rows) {
    tokens.push_back(codecs.source.tokenizer.encode(row.source));
    lengths.push_back(tokens.back().size());
  }
  if (models::attends(models.front().network().options())) {
    page.heading("Where it looks");
    page.paragraph(
        "Each row is a token that was written, each column one that was read; the stronger a cell, "
        "the more of the attention went there.");
  }
  Rows written;
  for (const std::size_t i :
       from_short_to_long(lengths, static_cast<std::size_t>(options.examples))) {
    const text::Sentence source = codecs.source.encode(tokens[i]);
    const models::Hypothesis h =
        write(models, std::span(&source, 1), {.beam = options.beam}).front().front();
    const std::string target = codecs.target.decode(h.words);
    const report::Heatmap map = heatmap(models.front(), std::move(tokens[i]), h);
    written.push_back(
        {rows[i].source, target, rows[i].target, probability_text(std::exp(h.log_probability))});
    if (map.rows.empty()) continue;
    const std::string wrong =
        target == rows[i].target ? "" : fmt::format(" (expected {})", isolated(rows[i].target));
    page.figure(report::svg(map),
                fmt::format("{} → {}{}", isolated(rows[i].source), isolated(target), wrong));
  }
  page.heading("What it writes").table({"source", "written", "expected", "probability"}, written);
}

}  // namespace

int report(const ReportArguments& options) {
  const std::vector<std::filesystem::path> files = model_files(options.models);
  const std::filesystem::path& first_path = options.models.front();
  const bool directory = std::filesystem::is_directory(first_path);  // of one or more trainings
  const auto path = page_path(options.out, directory ? first_path : first_path.parent_path());
  const std::vector<Model> models = load_models(files);
  const Model& first = models.front();
  const NamedRows data = rows_for(models, options.file, options.columns);
  const Evaluation result = evaluate(models, data.rows, options.beam);
  report::Page page(title(models, files));
  add_summary(page, models, data, result, options.beam);
  add_errors(page, result, first.target().vocabulary);
  add_curves(page, files);
  add_examples(page, models, data.rows, options);
  add_card(page, first.metadata());
  add_parameters(page, first.parameters());
  write_page(page, path);
  return 0;
}

}  // namespace attune::transduce
