#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/output.hpp"
#include "support/terminal.hpp"

namespace attune::dates {
namespace {

/// Whether it is YYYY-MM-DD, and a day of the calendar: the 32nd of a month is none.
bool is_possible(const std::string& date) {
  const std::string_view form = "0000-00-00";
  const auto alike = [](unsigned char c, char f) {
    return f == '0' ? std::isdigit(c) != 0 : c == f;
  };
  if (!std::ranges::equal(date, form, alike)) return false;
  const auto number = [&](std::size_t at, std::size_t n) { return std::stoi(date.substr(at, n)); };
  return std::chrono::year_month_day(std::chrono::year(number(0, 4)),
                                     std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                     std::chrono::day(static_cast<unsigned>(number(8, 2))))
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
  fmt::print("{}  {}{}\n", printable(date), probability_text(probability),
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
