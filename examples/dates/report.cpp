#include <cmath>

#include <fmt/format.h>

#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/log.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "support/chart.hpp"
#include "support/progress.hpp"
#include "support/report_page.hpp"
#include "support/run_directory.hpp"
#include "train.hpp"

namespace attune::dates {
namespace {

/// A stored share, in percent.
std::string percent(const Model& model, const char* name) {
  return fmt::format("{:.2f} %", 100 * nn::load_number(model.metadata(), name, 0, 1));
}

void add_summary(report::Page& page, const Model& model) {
  page.definitions({{"Exact match (validation)", percent(model, "exact_match")},
                    {"Character accuracy (validation)", percent(model, "character_accuracy")},
                    {"Parameters", grouped(model.parameters().count())},
                    {"Trained for", duration(seconds_in(model.metadata()))}});
}

void add_learning_curves(report::Page& page, const std::filesystem::path& log_path) {
  if (!std::filesystem::exists(log_path)) return;
  const auto log = report::read_log(log_path.string());
  page.heading("Learning curves");
  page.figure(report::svg(report::Chart{.title = "Training loss",
                                        .x_label = "step",
                                        .y_label = "cross-entropy per character",
                                        .series = {report::curve(log, "loss", "loss")},
                                        .log_y = true}),
              "Mean cross-entropy per character of the training batches.");
  page.figure(report::svg(report::Chart{
                  .title = "Accuracy on held-out dates",
                  .x_label = "step",
                  .y_label = "percent",
                  .series = {report::curve(log, "exact_match", "exact match", 100),
                             report::curve(log, "character_accuracy", "characters", 100)}}),
              "Share of validation dates that are written exactly, and of characters that agree.");
}

std::vector<Row> examples(const Model& model, const ReportArguments& options) {
  if (!options.file.empty()) return read_tsv(options.file, columns_for(model, options.columns));
  // Those it was validated on: generated again, or read again from where they were.
  return reading(options.model, [&]() -> std::vector<Row> {
    const Data data(train_options_from(model.metadata()).data);
    check_pairs(model.metadata(), data);
    return {data.validation().begin(), data.validation().end()};
  });
}

std::vector<Row> sample(const std::vector<Row>& rows, int count) {
  std::vector<std::size_t> lengths;
  for (const Row& row : rows) lengths.push_back(row.source.size());
  std::vector<Row> chosen;
  for (const std::size_t i : from_short_to_long(lengths, static_cast<std::size_t>(count)))
    chosen.push_back(rows[i]);
  return chosen;
}

void add_heatmaps(report::Page& page, const Model& model, std::span<const Row> rows,
                  std::span<const models::Hypothesis> written) {
  page.heading("Where the model looks");
  const nn::ScoreOptions& score = model.options().network.score;
  page.paragraph(fmt::format(
      "Each row is a character that was written, each column one that was read; the stronger a "
      "cell, the more of the attention went there{}.",
      score.kind == "multi_head" ? fmt::format(", on the mean of {} heads", score.heads) : ""));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const std::string date = model.decode(written[i].words);
    const report::Heatmap map = heatmap(model, text::code_points(row.source), written[i]);
    if (map.rows.empty()) continue;
    const std::string wrong = date == row.target ? "" : fmt::format(" (expected {})", row.target);
    page.figure(report::svg(map),
                fmt::format("{} → {}, probability {:.4f}{}", isolated(row.source), isolated(date),
                            std::exp(written[i].log_probability), wrong));
  }
}

/// What there is to see of a model without attention.
void add_examples(report::Page& page, const Model& model, std::span<const Row> rows,
                  std::span<const models::Hypothesis> written) {
  page.heading("What the model writes");
  std::vector<std::vector<std::string>> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    lines.push_back({rows[i].source, model.decode(written[i].words), rows[i].target,
                     fmt::format("{:.4f}", std::exp(written[i].log_probability))});
  }
  page.table({"source", "written", "expected", "probability"}, lines);
}

std::string introduction(const models::Seq2SeqOptions& network) {
  const char* order = network.reading == models::Reading::forward    ? "from left to right"
                      : network.reading == models::Reading::backward ? "from right to left"
                                                                     : "in both directions";
  return fmt::format(
      "An encoder reads every character of a date as people write it, {}; a decoder writes the ISO "
      "date, one character after another, {}.",
      order,
      models::attends(network) ? "and for each looks where it needs to"
                               : "from nothing but the encoder's last state");
}

report::Page make_page(const Model& model, const ReportArguments& options,
                       const std::vector<Row>& rows) {
  const models::Seq2SeqOptions& network = model.options().network;
  const bool attends = models::attends(network);
  report::Page page(fmt::format("{}: human dates, normalised {} attention",
                                run_names(std::span(&options.model, 1)).front(),
                                attends ? "with" : "without"));
  page.paragraph(introduction(network));
  add_summary(page, model);
  std::vector<models::Hypothesis> written;
  for (const Row& row : rows) {
    const text::Sentence source = model.source().encode(row.source);
    written.push_back(model.predict(std::span(&source, 1), 1).front());
  }
  (attends ? add_heatmaps : add_examples)(page, model, rows, written);
  add_learning_curves(page, options.model.parent_path() / "log.jsonl");
  add_card(page, model.metadata(),
           {{"source characters", grouped(model.source().vocabulary.size())},
            {"target characters", grouped(model.target().vocabulary.size())}});
  add_parameters(page, model.parameters());
  return page;
}

}  // namespace

int report(const ReportArguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  const std::vector<Row> rows = sample(examples(model, options), options.examples);
  write_page(reading(options.model, [&] { return make_page(model, options, rows); }), path);
  return 0;
}

}  // namespace attune::dates
