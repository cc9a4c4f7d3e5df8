#include <fmt/format.h>

#include <attune/models/heatmap.hpp>
#include <attune/tensor/reduce.hpp>

#include "speech.hpp"
#include "support/chart.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

/// Utterances to measure and to draw, and what they are.
struct Data {
  std::string name;
  std::vector<Utterance> utterances;
};

Data data_of(const Model& model, const Arguments& options) {
  if (options.list.empty() && !model.options.digits.empty())
    return {
        "strings of recordings 5 to 9 of each digit and speaker, by which the weights were chosen",
        Digits::for_validation(model.options.digits, model.rate()).strings(1, 12, 10, 1)};
  const std::string list = options.list.empty() ? model.options.valid_list : options.list.string();
  return {list, read_utterances(list, model.codec, model.rate())};
}

/// Rows of the mean of two bands each, the highest first, in columns of `joined` frames, as shares
/// of the range of all.
void add_spectrogram(report::Heatmap& map, const Tensor& heard, Index places, Index joined) {
  const Index frames = heard.dim(0), bands = heard.dim(1), rows = (bands + 1) / 2;
  const std::vector<double> values = heard.to_vector<double>();
  const auto [low, high] = std::ranges::minmax(values);
  for (Index row = rows - 1; row >= 0; --row) {
    map.rows.push_back(row == rows - 1 ? "high" : row == 0 ? "low" : "");
    for (Index s = 0; s < places; ++s) {
      double sum = 0, count = 0;
      for (Index t = s * joined; t < std::min(frames, (s + 1) * joined); ++t)
        for (Index band = 2 * row; band < std::min(bands, 2 * row + 2); ++band, ++count)
          sum += values[t * bands + band];
      map.weights.push_back(high > low ? (sum / count - low) / (high - low) : 0);
    }
  }
}

/// A column for each annotation: what was attended to at each token, and below it the spectrogram.
report::Heatmap picture(const Model& model, const Utterance& utterance,
                        const models::Hypothesis& h) {
  const Index places = h.weights.dim(1);
  report::Heatmap map{
      .rows = {}, .columns = {}, .weights = h.weights.to_vector<double>(), .caption = ""};
  for (Index s = 0; s < places; ++s)
    map.columns.push_back(s % 5 == 0 ? fmt::format("{:.2f} s", model.time(s)) : "");
  for (const std::int32_t word : h.words) map.rows.push_back(model.codec.vocabulary.token(word));
  if (h.complete) map.rows.push_back("end");
  add_spectrogram(map, model.hear(utterance.samples), places, model.options.frames_joined());
  return map;
}

void add_examples(report::Page& page, const Model& model, const Data& data, Index count) {
  page.heading("What was attended to");
  page.paragraph(
      "Each row above is a token that was written, and how much of its attention each stretch of "
      "the recording had. Below it is the spectrogram that was heard, high tones at the top.");
  const Index all = std::ssize(data.utterances);
  count = std::min(count, all);
  for (Index i = 0; i < count; ++i) {
    const Utterance& one = data.utterances[(2 * i + 1) * all / (2 * count)];
    const auto found = recognise(model, std::span(&one.samples, 1), {}).front();
    const std::string caption = fmt::format("said: {}; heard: {}", model.codec.decode(one.tokens),
                                            model.codec.decode(found.words));
    if (!found.weights.defined())
      page.paragraph(caption);
    else
      page.figure(report::svg(picture(model, one, found), {.cell = 9}), caption);
  }
}

void add_curves(report::Page& page, const CountsByLength& counts,
                const std::filesystem::path& log_path) {
  report::Series errors{.name = "", .x = {}, .y = {}};
  for (const auto& [length, some] : counts) {
    errors.x.push_back(static_cast<double>(length));
    errors.y.push_back(100 * some.edits.rate());
  }
  const report::Chart chart{.title = "By length",
                            .x_label = "tokens that were said",
                            .y_label = "token error (%)",
                            .series = {errors}};
  page.heading("Errors").figure(report::svg(chart), "");
  add_learning_curves(page, log_path, "loss, and token error (%)",
                      {{"loss", "loss in training"}, {"token_error", "error, validation", 100}},
                      true);
}

report::Page make_page(const Model& model, const Arguments& options) {
  const Data data = data_of(model, options);
  const CountsByLength counts = evaluate(model, data.utterances, {});
  const Counts all = total(counts);
  report::Page page(run_names(std::span(&options.model, 1)).front() + ": what was heard");
  page.definitions({{"Token error", fmt::format("{:.2f} %", 100 * all.edits.rate())},
                    {"All right", fmt::format("{:.1f} %", 100 * all.share_right())},
                    {"Utterances", grouped(all.examples)},
                    {"Parameters", grouped(model.parameters->count())},
                    {"Trained for", duration(seconds_in(model.metadata))}});
  page.paragraph(fmt::format("Measured on {}; beam size {}.", data.name, HearOptions().beam));
  add_examples(page, model, data, options.examples);
  add_curves(page, counts, options.model.parent_path() / "log.jsonl");
  add_card(page, model.metadata);
  return page;
}

}  // namespace

int report(const Arguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  write_page(make_page(model, options), path);
  return 0;
}

}  // namespace attune::speech
