// Heat maps of attention: in a terminal, as SVG, in an HTML page.
#include <algorithm>
#include <cmath>

#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/utf8.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using report::Heatmap;

/// Mostly in [0, 1], sometimes an invalid or extreme weight.
double weight(fuzz::Choices& choices) {
  const int byte = choices.byte();
  constexpr double odd[] = {fuzz::nan, fuzz::infinity, -1, 1e300, 5e-324, 1e-9, 2};
  return byte >= 249 ? odd[byte - 249] : byte / 248.0;
}

Heatmap heatmap(fuzz::Choices& choices, std::string_view text) {
  Heatmap map;
  std::string_view rows = fuzz::take(text, "\n\n"), columns = fuzz::take(text, "\n\n");
  while (!rows.empty()) map.rows.emplace_back(fuzz::take(rows, "\n"));
  while (!columns.empty()) map.columns.emplace_back(fuzz::take(columns, "\n"));
  if (map.rows.size() * map.columns.size() > 2000) map.rows.resize(1);
  map.caption = text;
  map.weights.resize(map.rows.size() * map.columns.size());
  for (double& w : map.weights) w = weight(choices);
  if (choices.one_in(64)) map.weights.push_back(0);
  return map;
}

bool is_utf8(std::string_view text) { return !text::find_bad_byte(text); }

/// The only control characters are line breaks, the only escape sequences colours.
void check_terminal(const std::string& lines, bool colour) {
  expect(is_utf8(lines), "terminal: not UTF-8");
  std::string plain = lines;
  for (std::size_t at = 0; colour && (at = plain.find("\x1b[", at)) != plain.npos;) {
    const std::size_t end = plain.find_first_not_of("0123456789;", at + 2);
    expect(end != plain.npos && plain[end] == 'm', "terminal: an escape sequence is not a colour");
    plain.erase(at, end + 1 - at);
  }
  // Captions may contain isolates; labels are enclosed in left-to-right marks.
  expect(printable(plain, "\n\u200e\u2066\u2067\u2068\u2069") == plain,
         "terminal: a control character");
}

void check_pictures(const Heatmap& map, fuzz::Choices& choices) {
  const bool colour = choices.one_in(2);
  const int width = choices.between(0, 100);
  const auto lines = fuzz::accepted([&] { return report::terminal(map, {colour, width}); });
  expect(lines.has_value() == (width >= 10), "terminal: width check is wrong");
  if (lines) check_terminal(*lines, colour);
  const auto svg = fuzz::accepted([&] { return report::svg(map, {.cell = 10}); });
  expect(svg && is_utf8(*svg), "svg: not UTF-8");
  expect(is_utf8(report::page(map.caption, report::figure(map, map.caption))), "page: not UTF-8");
}

}  // namespace

void fuzz_one(std::string_view input) {
  fuzz::Choices choices(fuzz::take(input, "\n"));
  const Heatmap map = heatmap(choices, input);
  const bool drawable =
      map.weights.size() == map.rows.size() * map.columns.size() &&
      std::ranges::all_of(map.weights, [](double w) { return std::isfinite(w) && w >= 0; });
  const bool drawn = fuzz::accepted([&] { return report::svg(map); }).has_value();
  expect(drawn == drawable, "invalid weights are drawn, or valid weights are rejected");
  if (drawn) check_pictures(map, choices);
}
