#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/models/metrics/bleu_by_length.hpp>
#include <attune/models/metrics/bootstrap.hpp>
#include <attune/models/metrics/chrf.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/log.hpp>
#include <attune/models/translate.hpp>
#include <attune/nn/checkpoint.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "line_lengths.hpp"
#include "support/chart.hpp"
#include "support/checkpoint.hpp"
#include "support/progress.hpp"
#include "support/report_page.hpp"
#include "support/run_directory.hpp"
#include "train.hpp"

namespace attune::translate {
namespace {

/// A text with what the model makes of it.
struct Translated : ReferenceText {
  std::string name;
  std::vector<models::Translation> translations;
  std::vector<std::string> written;  // the best of each
  std::vector<metrics::BleuStatistics> statistics;
};

/// "val.en and val.de"
std::string names_of(const std::filesystem::path& source, const std::filesystem::path& target) {
  const std::string first = source.filename().string();
  return target.empty() ? first : fmt::format("{} and {}", first, target.filename().string());
}

/// "en to de": the ends of the names of the files that it was trained on. Where these do not tell
/// the sides apart, the names.
std::string languages(const Metadata& metadata) {
  const std::filesystem::path source = nn::load_text(metadata, "source"),
                              target = nn::load_text(metadata, "target");
  const std::string from = source.extension().string(), to = target.extension().string();
  if (target.empty() || from.size() < 2 || to.size() < 2 || from == to)
    return names_of(source, target);
  return fmt::format("{} to {}", from.substr(1), to.substr(1));
}

Translated translate_text(const Model& model, const ReportArguments& o) {
  const bool given = !o.source.empty();
  const std::string source = given ? o.source : nn::load_text(model.metadata(), "valid-source"),
                    target = given ? o.target : nn::load_text(model.metadata(), "valid-target");
  Translated text{reference_text(source, target, columns_for(model, o.columns), model.codecs(),
                                 longest_read(alone(model), longest_of_pair)),
                  names_of(source, target),
                  {},
                  {},
                  {}};
  models::SearchOptions search = o.search;
  search.best = std::min(search.best, search.beam);
  text.translations = models::translate(model.network(), text.sources, {.how = search});
  for (const models::Translation& translation : text.translations)
    text.written.push_back(model.target().decode(translation.front().words));
  text.statistics = metrics::bleu_statistics(text.written, text.references, o.bleu);
  return text;
}

void add_summary(report::Page& page, const Model& model, const Translated& text,
                 const ReportArguments& o) {
  const metrics::Interval interval = metrics::bleu_interval(text.statistics, {}, o.bleu);
  page.definitions(
      {{"BLEU", fmt::format("{:.2f}", metrics::bleu(text.statistics, o.bleu).bleu)},
       {"95 % of resampled texts", fmt::format("{:.2f} to {:.2f}", interval.low, interval.high)},
       {"chrF", fmt::format("{:.2f}", metrics::corpus_chrf(text.written, text.references))},
       {"Perplexity", fmt::format("{:.2f}", std::exp(mean_loss(alone(model), text.pairs)))},
       {"Sentences", grouped(std::ssize(text.sources))},
       {"Parameters", grouped(model.parameters().count())},
       {"Trained for", duration(seconds_in(model.metadata()))}});
  page.paragraph(fmt::format("Model: {}, trained on {}. Measured on {}, with a beam of {}.",
                             nn::load_text(model.metadata(), "preset"),
                             names_of(nn::load_text(model.metadata(), "source"),
                                      nn::load_text(model.metadata(), "target")),
                             text.name, o.search.beam));
}

void add_lengths(report::Page& page, const Translated& text, const ReportArguments& o) {
  constexpr std::int64_t limits[] = {5, 10, 15, 20, 30, 50};
  std::vector<std::vector<std::string>> rows;
  for (const auto& bucket :
       metrics::bleu_by_length(text.statistics, source_lengths(text), limits, o.bleu)) {
    if (bucket.sentences == 0) continue;
    rows.push_back({bucket.longest ? fmt::format("{} to {}", bucket.shortest, *bucket.longest)
                                   : fmt::format("from {}", bucket.shortest),
                    grouped(bucket.sentences), fmt::format("{:.2f}", bucket.score.bleu)});
  }
  page.heading("BLEU by length").table({"words of the source", "sentences", "BLEU"}, rows);
}

void add_curves(report::Page& page, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return;
  const auto log = report::read_log(path.string());
  page.heading("Learning curves");
  page.figure(report::svg(report::Chart{.title = "Loss",
                                        .x_label = "update",
                                        .y_label = "per target token",
                                        .series = {report::curve(log, "loss", "training"),
                                                   report::curve(log, "valid_loss", "validation")},
                                        .log_y = false}),
              "The training loss is with dropout and label smoothing, that of the validation text "
              "without.");
  page.figure(report::svg(report::Chart{.title = "BLEU of the validation text",
                                        .x_label = "update",
                                        .y_label = "BLEU",
                                        .series = {report::curve(log, "bleu", "")}}),
              "");
}

void add_heatmap(report::Page& page, const Model& model, const std::string& source,
                 const models::Hypothesis& written) {
  const std::vector<std::string> read = model.source().tokenizer.encode(source),
                                 tokens = tokens_of(model, written);
  if (!written.weights.defined() || read.empty() || tokens.empty()) return;
  page.figure(report::svg(heatmap(read, tokens, written)),
              source + " → " + model.target().decode(written.words));
}

void add_examples(report::Page& page, const Model& model, const Translated& text,
                  std::size_t count) {
  std::vector<std::size_t> lengths;
  for (const std::string& line : text.lines) lengths.push_back(line.size());
  const std::vector<std::size_t> some = from_short_to_long(lengths, count);
  if (models::attends(model.network().options())) {
    page.heading("Where the model looks");
    for (std::size_t i : some)
      add_heatmap(page, model, text.lines[i], text.translations[i].front());
  }
  page.heading("Translations, the best first");
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i : some) {
    rows.push_back({text.lines[i], text.references[i].front(), "reference"});
    for (const models::Hypothesis& hypothesis : text.translations[i]) {
      rows.push_back(
          {"", model.target().decode(hypothesis.words), fmt::format("{:.3f}", hypothesis.score)});
    }
  }
  page.table({"source", "translation", "score"}, rows);
}

}  // namespace

int report(const ReportArguments& o) {
  const auto path = page_path(o.out, o.model.parent_path());
  const Model model = Model::load(o.model);
  const Translated text = translate_text(model, o);
  report::Page page(fmt::format("{}: {}", run_names(std::span(&o.model, 1)).front(),
                                languages(model.metadata())));
  add_summary(page, model, text, o);
  add_lengths(page, text, o);
  add_curves(page, o.model.parent_path() / "log.jsonl");
  add_examples(page, model, text, static_cast<std::size_t>(o.examples));
  add_card(page, model.metadata());
  write_page(page, path);
  return 0;
}

}  // namespace attune::translate
