#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <attune/models/report/heatmap.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/output.hpp"
#include "support/progress.hpp"
#include "support/terminal.hpp"

namespace attune::dates {
namespace {

constexpr std::size_t longest_source = 10000;

/// Warns of each character that the model has not seen, once in a program's run.
void warn_of_unknown(const Model& model, std::span<const std::string> points) {
  static std::set<std::string> warned;
  for (const std::string& point : points) {
    if (model.source_vocabulary().id(point) != text::Vocabulary::unknown ||
        !warned.insert(point).second)
      continue;
    complain("warning: '{}' was never seen in training and is read as <unk>\n", printable(point));
  }
}

/// Whether the calendar has this day: the 32nd of a month is none.
bool is_possible(const std::string& date) {
  int year = 0;
  unsigned month = 0, day = 0;
  int read = 0;
  if (std::sscanf(date.c_str(), "%4d-%2u-%2u%n", &year, &month, &day, &read) != 3) return false;
  return read == std::ssize(date) &&
         std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month),
                                     std::chrono::day(day))
             .ok();
}

nlohmann::ordered_json to_json(const report::Heatmap& map, const std::string& source,
                               const std::string& date, double probability) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const auto first = map.weights.begin() + static_cast<std::ptrdiff_t>(r * map.columns.size());
    rows.push_back(
        std::vector<double>(first, first + static_cast<std::ptrdiff_t>(map.columns.size())));
  }
  return {{"source", source},           {"prediction", date},
          {"probability", probability}, {"impossible", !is_possible(date)},
          {"rows", map.rows},           {"columns", map.columns},
          {"attention", rows}};
}

class Predictor {
 public:
  explicit Predictor(const PredictArguments& options)
      : options_(options), model_(Model::load(options.model)) {
    const bool terminal = isatty(STDOUT_FILENO);
    draw_ = options.attention == Show::always || (options.attention == Show::automatic && terminal);
    colour_ = terminal;
  }

  /// One date; `place` says where it stands, for errors.
  void predict(const std::string& source, const std::string& place) const {
    std::vector<std::string> points;
    try {
      points = text::code_points(source);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", place, error.what()));
    }
    if (points.empty()) throw Error(fmt::format("{}: it is empty, but a date was expected", place));
    if (points.size() > longest_source) {
      throw Error(fmt::format("{}: it has {} characters, but at most {} were expected", place,
                              points.size(), longest_source));
    }
    warn_of_unknown(model_, points);
    const text::Sentence sentence = model_.source_vocabulary().encode(points);
    const models::Hypothesis h = model_.predict(std::span(&sentence, 1), options_.beam).front();
    print(source, std::move(points), h);
  }

  /// An empty line answers an empty line, so that lines in and lines out stay together.
  void predict_lines(std::istream& lines) const {
    text::LineReader reader(lines, "standard input");
    while (const auto line = reader.next()) {
      if (!line->empty()) {
        predict(*line, fmt::format("{}:{}", reader.name(), reader.number()));
      } else {
        fmt::print("{}\n",
                   options_.json ? R"({"source":"","prediction":null,"probability":null})" : "");
      }
      flush_output();
    }
    check_input();
  }

 private:
  void print(const std::string& source, std::vector<std::string> points,
             const models::Hypothesis& h) const {
    const std::string date = model_.decode(h.words);
    const double probability = std::exp(h.log_probability);
    const report::Heatmap map = model_.heatmap(std::move(points), h);
    if (options_.json) {
      fmt::print("{}\n", for_output(to_json(map, source, date, probability).dump()));
      return;
    }
    fmt::print("{}  {:.4f}{}\n", printable(date), probability,
               is_possible(date) ? "" : "  impossible: the calendar has no such day");
    if (draw_ && !map.rows.empty()) {
      fmt::print("{}\n", report::terminal(map, {.colour = colour_, .width = terminal_width()}));
    }
  }

  const PredictArguments& options_;
  Model model_;
  bool draw_, colour_;
};

}  // namespace

int predict(const PredictArguments& options) {
  const Predictor predictor(options);
  if (options.sources.empty()) predictor.predict_lines(std::cin);
  int status = 0;
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    try {
      predictor.predict(options.sources[i], fmt::format("argument {}", i + 1));
    } catch (const Error& error) {  // the others are dates of their own
      complain("dates: {}\n", printable(error.what()));
      status = 1;
    }
  }
  return status;
}

}  // namespace attune::dates
