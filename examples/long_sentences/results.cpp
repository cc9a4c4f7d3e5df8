#include "results.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "support/chart.hpp"
#include "support/page.hpp"

namespace attune::long_sentences {

namespace {

using Json = nlohmann::json;

std::string accuracy_at(Index length) { return fmt::format("accuracy_{}", length); }

Record from_json(const Json& json) {
  Record record{json.at("setting"), json.at("variant"), json.at("seed"), {}};
  Result& result = record.result;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    result.accuracy[i] = json.at(accuracy_at(lengths[i]));
  }
  result.loss = json.at("loss");
  result.seconds = json.at("seconds");
  result.parameters = json.at("parameters");
  return record;
}

void check_same(const Json& json, const char* name, Index value) {
  const Index stored = json.at(name);
  if (stored == value) return;
  throw Error(
      fmt::format("a result of --{0} {1}, not {2}: another --out is needed", name, stored, value));
}

Mean mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Mean result;
  for (const double value : values) result.mean += value / n;
  for (const double value : values) result.deviation += std::pow(value - result.mean, 2);
  result.deviation = values.size() < 2 ? 0 : std::sqrt(result.deviation / (n - 1));
  return result;
}

Row row_of(const std::string& variant, const std::vector<const Record*>& records) {
  Row row{.variant = variant, .seeds = records.size()};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<double> values;
    for (const Record* record : records) values.push_back(record->result.accuracy[i]);
    row.accuracy[i] = mean_of(values);
  }
  for (const Record* record : records) {
    row.seconds += record->result.seconds / static_cast<double>(records.size());
    row.parameters = record->result.parameters;
  }
  return row;
}

}  // namespace

report::LogFields fields_of(const Record& record, const Budget& budget) {
  const Result& result = record.result;
  report::LogFields fields = {{"setting", record.setting},
                              {"variant", record.variant},
                              {"seed", static_cast<std::int64_t>(record.seed)},
                              {"steps", std::int64_t{budget.steps}},
                              {"hidden", std::int64_t{budget.hidden}}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    fields.push_back({accuracy_at(lengths[i]), result.accuracy[i]});
  }
  fields.push_back({"loss", result.loss});
  fields.push_back({"parameters", std::int64_t{result.parameters}});
  fields.push_back({"seconds", std::round(10 * result.seconds) / 10});
  return fields;
}

std::vector<Record> read_records(const std::filesystem::path& file, const Budget& budget) {
  if (!std::filesystem::exists(file)) return {};
  const std::string text = read_file(file);
  std::vector<Record> records;
  std::size_t number = 1;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    try {
      const Json json = Json::parse(text.substr(begin, end - begin));
      check_same(json, "steps", budget.steps);
      check_same(json, "hidden", budget.hidden);
      records.push_back(from_json(json));
    } catch (const Json::exception&) {
      throw Error(fmt::format("{}:{}: not a result of long_sentences", file.string(), number));
    } catch (const Error& error) {
      throw Error(fmt::format("{}:{}: {}", file.string(), number, error.what()));
    }
    ++number;
  }
  return records;
}

std::vector<Row> rows_of(const std::vector<Record>& records, const std::string& setting) {
  std::vector<Row> rows;
  for (const Variant& variant : variants()) {
    std::vector<const Record*> own;
    for (const Record& record : records) {
      if (record.setting == setting && record.variant == variant.name) own.push_back(&record);
    }
    if (!own.empty()) rows.push_back(row_of(variant.name, own));
  }
  return rows;
}

double kept(const Row& row) {
  constexpr std::size_t at_20 = 2;
  static_assert(lengths[at_20] == 20);
  const double short_ones = row.accuracy[at_20].mean;
  return short_ones > 0 ? row.accuracy.back().mean / short_ones : 0;
}

namespace {

std::string percent(const Mean& value, std::size_t seeds) {
  const std::string mean = fmt::format("{:.1f}", 100 * value.mean);
  return seeds < 2 ? mean : fmt::format("{} ±{:.1f}", mean, 100 * value.deviation);
}

std::vector<std::string> header() {
  std::vector<std::string> cells = {"words"};
  for (const Index length : lengths) cells.push_back(std::to_string(length));
  cells.insert(cells.end(), {"60 of 20", "weights", "CPU s"});
  return cells;
}

std::vector<std::string> cells_of(const Row& row) {
  std::vector<std::string> cells = {row.variant};
  for (const Mean& value : row.accuracy) cells.push_back(percent(value, row.seeds));
  cells.push_back(fmt::format("{:.0f} %", 100 * kept(row)));
  cells.push_back(grouped(row.parameters));
  cells.push_back(fmt::format("{:.1f}", row.seconds));
  return cells;
}

std::size_t width_of_names(const std::vector<Row>& rows) {
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.variant.size());
  return width;
}

/// One of the charts of a setting.
struct Panel {
  const char* name;
  const char* title;
  bool (*shows)(const Variant& variant);
};
const Panel panels[] = {
    {"models", "Models",
     [](const Variant& v) { return v.preset != "luong" || v.name == "luong-general"; }},
    {"scores", "Scores and windows", [](const Variant& v) { return v.preset == "luong"; }}};

report::Chart chart(const Panel& panel, const Setting& setting, const std::vector<Row>& rows) {
  report::Chart chart{
      .title = fmt::format("{}, trained on lengths up to {}", panel.title, setting.longest),
      .x_label = "words of the sentence",
      .y_label = "target words right, percent",
      .series = {},
      .y_includes = {0, 100}};
  for (const Row& row : rows) {
    if (!panel.shows(variant(row.variant))) continue;
    report::Series series{row.variant, {}, {}};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      series.x.push_back(static_cast<double>(lengths[i]));
      series.y.push_back(100 * row.accuracy[i].mean);
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

const char* const what_it_is =
    "Random sentences are translated word by word, with a dictionary; the form of each word "
    "depends on the word before. Without attention all that a decoder knows of the source has "
    "to pass through one vector, and a sentence of 60 random words does not fit. With attention "
    "it looks at the source again for every word.";
/// What these runs can show: what the papers found.
std::string what_to_look_for(const std::vector<Record>& records) {
  std::vector<std::string> without;
  bool attending = false, longer = false;
  for (const Variant& one : variants()) {
    if (std::ranges::find(records, one.name, &Record::variant) == records.end()) continue;
    const bool attends = models::attends(models::preset(one.preset).options);
    attends ? void(attending = true) : without.push_back(one.name);
  }
  for (const Setting& setting : settings) {
    longer |= setting.longest < lengths.back() &&
              std::ranges::find(records, setting.name, &Record::setting) != records.end();
  }
  std::string text = "What to look for:";
  if (!without.empty()) {
    text += fmt::format(
        " whether, without attention ({}), fewer words are right the longer the sentence is, as "
        "Cho et al. (2014) found.",
        fmt::join(without, ", "));
  }
  if (attending) {
    text +=
        " Whether models with attention stay level on the lengths that they were trained on, as in "
        "figure 2 of Bahdanau et al. (2014) and figure 7 of Luong et al. (2015).";
  }
  if (attending && longer) {
    text += " Whether they fall on longer sentences, which have places that none in training had.";
  }
  return text;
}

std::string how_measured(const std::vector<Record>& records) {
  const bool several = std::ranges::any_of(records, [](auto& record) { return record.seed > 1; });
  return fmt::format(
      "Share of the target's words that are right, place by place, under greedy decoding, in "
      "percent{}. A seed decides language, sentences and initial values. \"60 of 20\" is the "
      "accuracy at 60 words divided by that at 20. All models have the same steps, sentences, "
      "units and learning rates.",
      several ? ": mean ± standard deviation over the seeds" : ", of one seed");
}

void add_setting(report::Page& page, const std::filesystem::path& directory, const Setting& setting,
                 const std::vector<Row>& rows) {
  page.heading(
      fmt::format("Setting {}: trained on lengths up to {}", setting.name, setting.longest));
  for (const Panel& panel : panels) {
    const report::Chart drawn = chart(panel, setting, rows);
    if (drawn.series.empty()) continue;
    const std::string svg = report::svg(drawn);
    write_file(directory / fmt::format("{}-{}.svg", setting.name, panel.name), svg);
    page.figure(svg, rows.front().seeds > 1 ? "Mean over the seeds." : "");
  }
  std::vector<std::vector<std::string>> body;
  for (const Row& row : rows) body.push_back(cells_of(row));
  page.table(header(), body);
}

}  // namespace

std::string table(const std::vector<Row>& rows) {
  const std::size_t names = std::max<std::size_t>(5, width_of_names(rows));
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    text += fmt::format("{:{}}", cells[0], names);
    for (std::size_t i = 1; i < cells.size(); ++i) {
      text += fmt::format(" {:>{}}", cells[i], i <= lengths.size() ? 10 : 8);
    }
    text += '\n';
  };
  add(header());
  for (const Row& row : rows) add(cells_of(row));
  return text;
}

std::string plot(const std::vector<Row>& rows) {
  static constexpr const char* blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t names = width_of_names(rows);
  std::string text = fmt::format("{:{}} ", "", names);
  for (const Index length : lengths) text += fmt::format("{:>4}", length);
  text += '\n';
  for (const Row& row : rows) {
    text += fmt::format("{:{}} ", row.variant, names);
    for (const Mean& value : row.accuracy) {
      const char* const block =
          blocks[static_cast<int>(std::clamp(8 * value.mean + 0.5, 0.0, 8.0))];
      text += fmt::format(" {0}{0}{0}", block);
    }
    text += '\n';
  }
  return text;
}

void write_report(const std::filesystem::path& directory, const std::vector<Record>& records,
                  const Budget& budget) {
  report::Page page("Long sentences, with and without attention");
  page.paragraph(what_it_is).paragraph(what_to_look_for(records));
  page.definitions({{"Words of the language", std::to_string(budget.words)},
                    {"Units", std::to_string(budget.hidden)},
                    {"Steps", std::to_string(budget.steps)},
                    {"Sentences a step", std::to_string(budget.batch)},
                    {"Test sentences a length", std::to_string(budget.tested)}});
  for (const Setting& setting : settings) {
    const std::vector<Row> rows = rows_of(records, setting.name);
    if (!rows.empty()) add_setting(page, directory, setting, rows);
  }
  page.heading("How it was measured");
  page.paragraph(how_measured(records));
  write_file(directory / "report.html", page.html());
}

}  // namespace attune::long_sentences
