#include <chrono>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/output.hpp"
#include "support/terminal.hpp"

namespace attune::dates {
namespace {

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

void print(const PredictArguments& options, const std::string& source, const std::string& date,
           double probability, const report::Heatmap& map) {
  if (options.json) {
    nlohmann::ordered_json json = {{"source", source},
                                   {"prediction", date},
                                   {"probability", probability},
                                   {"impossible", !is_possible(date)}};
    add_attention(json, map);
    fmt::print("{}\n", for_output(json.dump()));
    return;
  }
  fmt::print("{}  {:.4f}{}\n", printable(date), probability,
             is_possible(date) ? "" : "  impossible: the calendar has no such day");
  draw(map, options.attention);
}

}  // namespace

int predict(const PredictArguments& options) {
  const Model model = Model::load(options.model);
  const auto answer = [&](const std::string& source, const std::string& place) {
    std::vector<std::string> points = source_tokens(model.source(), source, place, "a date");
    const text::Sentence sentence = model.source().encode(points);
    const models::Hypothesis h = model.predict(std::span(&sentence, 1), options.beam).front();
    print(options, source, model.decode(h.words), std::exp(h.log_probability),
          heatmap(model, std::move(points), h));
  };
  const char* nothing = options.json ? R"({"source":"","prediction":null,"probability":null})" : "";
  return each_source("dates", options.sources, answer, [&] { fmt::print("{}\n", nothing); });
}

}  // namespace attune::dates
