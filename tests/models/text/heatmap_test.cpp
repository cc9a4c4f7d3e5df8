#include <regex>
#include <string>

#include <doctest/doctest.h>

#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/errors.hpp>

#include "support/errors.hpp"
#include "support/report_tools.hpp"

namespace {

using namespace attune::report;
using namespace attune::test;
using attune::text::code_points;

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

/// Display width, for the few scripts that appear in these tests.
int width(const std::string& text) {
  const std::string shown = without_escapes(text);
  int columns = 0;
  for (std::size_t at = 0; at < shown.size();) {
    const char32_t u = attune::text::next_code_point(shown, at);
    const bool no_width = (u >= 0x300 && u < 0x370) || u == 0x200E || u == 0x64B;
    const bool wide = (u >= 0x2E80 && u < 0xA4D0) || (u >= 0xAC00 && u < 0xD7A4) ||
                      (u >= 0xFF00 && u < 0xFF61) || (u >= 0x1F300 && u < 0x1FA00);
    columns += no_width ? 0 : wide ? 2 : 1;
  }
  return columns;
}

void check_aligned(const std::string& text, int at_most = 80) {
  REQUIRE(!lines(text).empty());
  for (const std::string& line : lines(text)) {
    CAPTURE(without_escapes(line));
    CHECK(width(line) == width(lines(text).front()));
    CHECK(width(line) <= at_most);
  }
}

// ---- Heat map in a terminal ---------------------------------------------------------------------

TEST_CASE("heatmap: without colour the weights are shades under the source") {
  const Heatmap map{{"a", "b"}, {"x", "y", "z"}, {1, 0, 0, 0, 0.5, 0.2}, ""};
  CHECK(terminal(map, {.colour = false}) ==
        "  x y z \n"
        "a ██    \n"
        "b   ▓▓░░\n");
}

TEST_CASE("heatmap: shades grow with the weight") {
  const Heatmap map{{"a"}, {"1", "2", "3", "4", "5"}, {0, 0.2, 0.4, 0.7, 1}, ""};
  CHECK(lines(terminal(map, {.colour = false}))[1] == "a   ░░▒▒▓▓██");
}

TEST_CASE("heatmap: each line ends with a colour reset") {
  const Strings all = lines(terminal(diagonal({"a", "b"}, {"x", "y", "z"})));
  REQUIRE(all.size() == 3);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(contains(all[i], "\x1b[48;5;"));
    CHECK(all[i].ends_with("\x1b[0m"));
  }
}

TEST_CASE("heatmap: all terminal lines of a date are equally wide") {
  Heatmap map = diagonal(code_points("2001-06-27"), code_points("Wednesday June 27 2001"));
  map.caption = "Wednesday June 27 2001";
  for (const bool colour : {true, false}) check_aligned(terminal(map, {.colour = colour}));
}

TEST_CASE("heatmap: labels of any width are aligned with their cells") {
  const struct {
    Strings rows, columns;
    std::vector<std::string> first_lines;
  } cases[] = {{code_points("2001-06-27"),
                code_points("2001年6月27日（水）"),
                {"  2 0 0 1 年6 月2 7 日（水）"}},
               {{"日本", "a", ""}, {"x"}, {"     x ", "日本 ██", "   a ██"}},
               // An accent has no width; without a base letter it gets a dotted circle.
               {{"e\u0301"}, {"o\u0308", "n"}, {"  o\u0308 n "}},
               {{"a"}, {"\u0301", "b"}, {"  \u25CC\u0301 b "}},
               {{"", "b"}, {"x", "", "z"}, {"  x   z "}},
               // Short words are vertical, above their columns.
               {{"the", "end"},
                {"das", "Ende"},
                {"      E ", "    d n ", "    a d ", "    s e ", "the ██  "}},
               {{"\xFF"}, {"\xC3", "b"}, {"  \uFFFD b "}}};  // not UTF-8
  for (const auto& [rows, columns, first_lines] : cases) {
    const std::string text = terminal(diagonal(rows, columns), {.colour = false});
    check_aligned(text);
    for (std::size_t i = 0; i < first_lines.size(); ++i) CHECK(lines(text)[i] == first_lines[i]);
  }
}

TEST_CASE("heatmap: a space shows as ␣, also at the end of a word, but not within one") {
  CHECK(lines(terminal(diagonal({" "}, {" ", "\u3000"})))[0] == "  ␣ ␣ ");
  CHECK(contains(terminal(diagonal({" b"}, {"x"})), "␣b "));
  CHECK(contains(terminal(diagonal({"a b"}, {"x"})), "a b "));
}

TEST_CASE("heatmap: long words are numbered, with a key below") {
  const std::string text = terminal(diagonal({"a", "b"}, {"unbeschreiblich", "klein"}));
  check_aligned(text);
  CHECK(width(lines(text)[0]) == width("1 unbeschreiblich  2 klein"));
  CHECK(lines(text)[0].starts_with("   1 2"));
  CHECK(lines(text).back() == "1 unbeschreiblich  2 klein");
}

TEST_CASE("heatmap: the key of many words breaks between words and stays inside the terminal") {
  const Heatmap map = diagonal({"a"}, Strings(15, "Donaudampfschifffahrt"));
  const std::string text = terminal(map, {.width = 60});
  check_aligned(text, 60);
  CHECK(count(text, " Donaudampfschifffahrt") == 15);
}

TEST_CASE("heatmap: labels from right to left keep their columns") {
  const std::string text = terminal(diagonal({"1", "2"}, {"ب", "ت"}), {.colour = false});
  check_aligned(text);
  // Left-to-right marks on both sides keep the order of letters.
  CHECK(lines(text)[0] == "  \u200Eب\u200E \u200Eت\u200E ");
  // Without them, Arabic digits are reordered.
  CHECK(lines(terminal(diagonal({"1"}, {"٢", "٧"})))[0] == "  \u200E٢\u200E \u200E٧\u200E ");
}

TEST_CASE("heatmap: isolates are kept in a caption, but not in a label") {
  Heatmap map = diagonal({"1"}, {"\u2067"});
  map.caption = "\u2068صغير\u2069 → \u20682001-06-27\u2069";
  const Strings all = lines(terminal(map));
  CHECK(contains(all[0], map.caption));
  CHECK(all[1].starts_with("  \uFFFD"));
}

TEST_CASE("heatmap: words from right to left are numbered, as their letters join") {
  const std::string text = terminal(diagonal({"the", "house"}, {"صغير", "جدا"}));
  check_aligned(text);
  CHECK(contains(lines(text)[0], "1 2"));
  CHECK(contains(text, "1 صغير"));
}

TEST_CASE("heatmap: a long source has one column per character before it is split into panels") {
  const std::string source(60, 's');
  const std::string text = terminal(diagonal({"a"}, code_points(source)), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  " + source);
}

TEST_CASE("heatmap: a map wider than the terminal is split into panels with all rows") {
  const Heatmap map = diagonal({"x", "y"}, code_points("abcdefghijklmnopq"));
  CHECK(terminal(map, {.colour = false, .width = 10}) ==
        "  abcdef\nx █     \ny       \n        \n"
        "  ghijkl\nx       \ny   █   \n        \n"
        "  mnopq \nx       \ny       \n");
  for (const std::string& source :
       {std::string(100, 's'), std::string("日本語の文字").append(60, 's')}) {
    for (const int columns : {10, 11, 20, 39, 80}) {
      const Heatmap wide = diagonal(code_points("ab"), code_points(source));
      const std::string text = terminal(wide, {.colour = false, .width = columns});
      check_aligned(text, columns);
      CHECK(count(text, "s") == count(source, "s"));
      CHECK_FALSE(contains(text, "…"));
    }
  }
}

TEST_CASE("heatmap: panels have words above their columns, and continuous numbers") {
  CHECK(terminal(diagonal({"x"}, {"ab", "b", "cd", "e", "f", "g", "hij"}),
                 {.colour = false, .width = 10}) ==
        "  a   c   \n  b b d e \nx ██      \n          \n"
        "      h   \n      i   \n  f g j   \nx         \n");
  const std::string numbered =
      terminal(diagonal({"x"}, Strings(12, "Donaudampfschiff")), {.colour = false, .width = 20});
  check_aligned(numbered, 20);
  CHECK(lines(numbered)[0] == "    1  2  3  4  5  6");
  CHECK(lines(numbered)[3] == "    7  8  9 10 11 12");
  CHECK(count(numbered, " Donaudampfschiff") == 12);
}

TEST_CASE("heatmap: in a very wide terminal, the key has lines of 80 columns") {
  const Heatmap map = diagonal({"a"}, Strings(20, "Donaudampfschifffahrt"));
  const std::string text = terminal(map, {.width = std::numeric_limits<int>::max()});
  check_aligned(text, 80);
  CHECK(lines(text).size() == 2 + 7);  // three to a line
}

TEST_CASE("heatmap: a long row label and a long caption are truncated") {
  Heatmap map = diagonal({std::string(100, 'r')}, code_points("abc"));
  map.caption = std::string(200, 'c');
  const std::string text = terminal(map, {.colour = false, .width = 30});
  check_aligned(text, 30);
  CHECK(lines(text)[0] == std::string(29, 'c') + "…");
  CHECK(lines(text)[2].starts_with("rrrrrrrrr… "));
}

TEST_CASE("heatmap: a label cannot control the terminal") {
  Heatmap map = diagonal({"\x1b[2J", "\u009B1m"}, {"\n", "\u202E", "\t"});
  map.caption = "a\nb\u2028c";
  const std::string text = terminal(map, {.colour = false});
  check_aligned(text);
  CHECK(lines(text).size() == 4);
  CHECK(lines(text)[0].starts_with("a␊b\uFFFDc"));
  CHECK(contains(lines(text)[1], "␊ \uFFFD ␉ "));
  CHECK_FALSE(contains(text, "\x1b"));
  CHECK_FALSE(contains(text, "\u202E"));
  CHECK_FALSE(contains(text, "\u009B"));
}

TEST_CASE("heatmap: no rows or no columns is an empty map, not an error") {
  CHECK(terminal({{}, {"a", "b"}, {}, ""}) == " a b \n");
  CHECK(terminal({{"a"}, {}, {}, ""}, {.colour = false}) == "  \na \n");
  CHECK(xml_error(svg(Heatmap{})) == "");
}

TEST_CASE("heatmap: a weight a little above 1 draws as 1") {
  const Heatmap map{{"a"}, {"b"}, {1.0000001}, ""};
  CHECK(contains(terminal(map, {.colour = false}), "██"));
  CHECK(contains(svg(map), "fill-opacity=\"1.000\""));
}

TEST_CASE("heatmap: colours are relative to the darkest weight, tooltips have the weights") {
  const std::string image = svg({{"a"}, {"x", "y"}, {0.02, 0.04}, ""}, {.darkest = 0.04});
  CHECK(contains(image, "fill-opacity=\"0.616\"><title>\u2068a\u2069 ← \u2068x\u2069: 0.020<"));
  CHECK(contains(image, "fill-opacity=\"1.000\"><title>\u2068a\u2069 ← \u2068y\u2069: 0.040<"));
  CHECK(contains(image, ">0</text>"));  // the legend
  CHECK(contains(image, ">0.04</text>"));
}

// ---- Heat map: errors ---------------------------------------------------------------------------

TEST_CASE("heatmap: a wrong number of weights is named with the shape") {
  const Heatmap map{{"a", "b"}, {"x", "y", "z"}, std::vector<double>(7), ""};
  const std::string expected = "heatmap: 7 weights, but 2 rows x 3 columns require 6";
  CHECK_THROWS_WITH_AS(terminal(map), expected.c_str(), attune::Error);
  CHECK_THROWS_WITH_AS(svg(map), expected.c_str(), attune::Error);
}

TEST_CASE("heatmap: a weight that is not a finite number >= 0 is named with its row and column") {
  for (const double bad : {kNaN, kInfinity, -0.25}) {
    const Heatmap map{{"a", "b"}, {"x", "y", "z"}, {0, 0, 0, 0, 0, bad}, ""};
    CHECK_THROWS_AS(svg(map), attune::Error);
    CHECK(attune::error_of([&] {
            terminal(map);
          }).starts_with("heatmap: weight (row 1, column 2) is "));
  }
}

TEST_CASE("heatmap: a terminal or a cell that is too small is an error") {
  CHECK_THROWS_WITH_AS(terminal(diagonal({"a"}, {"b"}), {.width = 0}),
                       "heatmap: the terminal has 0 columns, but at least 10 are needed",
                       attune::Error);
  CHECK_THROWS_AS(svg(diagonal({"a"}, {"b"}), {.cell = 0}), attune::Error);
  CHECK_THROWS_AS(svg(diagonal({"a"}, {"b"}), {.cell = kNaN}), attune::Error);
  CHECK_THROWS_AS(svg(diagonal({"a"}, {"b"}), {.darkest = 0}), attune::Error);
}

// ---- Heat map as SVG ----------------------------------------------------------------------------

TEST_CASE("heatmap: a label with < & and quotes is escaped in SVG") {
  Heatmap map = diagonal({"<&>"}, {"\"'"});
  map.caption = "<b> \"c\"";
  const std::string image = svg(map);
  CHECK(xml_error(image) == "");
  CHECK(contains(image, ">&lt;&amp;&gt;</text>"));
  CHECK(contains(image, ">&quot;&#39;</text>"));
  CHECK(contains(image, "aria-label=\"Heat map: &lt;b&gt; &quot;c&quot;\""));
}

TEST_CASE("heatmap: no label breaks the SVG") {
  const Strings labels = {kNasty,   "",        " ",      "\u0301",
                          "日本語", "العربية", "\u202E", "👩‍👩‍👧",
                          "-->",    "\t",      "\n",     std::string("\0", 1),
                          "\uFFFE", "]]>"};
  Heatmap map = diagonal(labels, labels);
  map.caption = kNasty;
  CHECK(xml_error(svg(map)) == "");
}

TEST_CASE("heatmap: each cell has its weight as a tooltip") {
  const Heatmap map{{"2", "7"}, {"a", "b", " "}, {0.125, 0, 1, 0.25, 0.5, 0.0004}, ""};
  const std::string image = svg(map);
  CHECK(count(image, "</title></rect>") == 6);
  CHECK(contains(image, "<title>\u20682\u2069 ← \u2068a\u2069: 0.125</title>"));
  CHECK(contains(image, "<title>\u20687\u2069 ← \u2068b\u2069: 0.500</title>"));
  CHECK(contains(image, "<title>\u20682\u2069 ← \u2068␣\u2069: 1.000</title>"));
}

TEST_CASE("heatmap: the source is at the top of the SVG, the target at the left") {
  const std::string image = svg(diagonal({"r"}, {"1", "2", "3"}));
  const std::regex text(R"re(<text transform="translate\(([\d.]+) ([\d.]+)\)">(\w)</text>)re");
  std::vector<std::smatch> found(std::sregex_iterator(image.begin(), image.end(), text), {});
  REQUIRE(found.size() == 6);  // with the two numbers of the legend
  CHECK(found[3][3] == "r");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found[i][3] == std::to_string(i + 1));
    CHECK(found[i][2] == found[0][2]);
    CHECK(std::stod(found[i][1]) > std::stod(found[i > 0 ? i - 1 : 3][1]));
    CHECK(std::stod(found[i][2]) < std::stod(found[3][2]));
  }
}

TEST_CASE("heatmap: characters are upright in SVG, words run upwards, a cell apart") {
  CHECK_FALSE(contains(svg(diagonal({"a"}, code_points("日本語"))), "rotate("));
  const std::string image = svg(diagonal({"a"}, {"das", "Haus"}), {.cell = 20});
  const std::regex word(R"re(translate\(([\d.]+) [\d.]+\) rotate\(-90\))re");
  std::vector<std::smatch> found(std::sregex_iterator(image.begin(), image.end(), word), {});
  REQUIRE(found.size() == 2);
  CHECK(std::stod(found[1][1]) - std::stod(found[0][1]) == doctest::Approx(20));
}

TEST_CASE("heatmap: an SVG of several maps has their captions and one legend") {
  Heatmap first = diagonal({"a"}, {"b"}), second = diagonal({"c", "d"}, {"e"});
  first.caption = "b → a", second.caption = "e → c d";
  const std::string image = svg(std::vector{first, second});
  CHECK(xml_error(image) == "");
  CHECK(count(image, "role=\"img\"") == 2);
  CHECK(image.find(">b → a</text>") < image.find(">e → c d</text>"));
  CHECK(count(image, ">0</text>") == 1);
  const auto height = [](const std::string& svg) {
    return std::stod(svg.substr(svg.find(" height=\"") + 9));
  };
  CHECK(height(image) > height(svg(first)) + 36);
}

TEST_CASE("heatmap: a long label is truncated in the drawing, not in tooltip and description") {
  const std::string word(100, 'w');
  const std::string image = svg(diagonal({"a"}, {word}));
  CHECK(count(image, word) == 2);
  CHECK(contains(image, "www…</text>"));
}

TEST_CASE("heatmap: an SVG has its colours for light and dark, and no rules for pages") {
  const std::string image = svg(diagonal({"a"}, {"b"}));
  CHECK(contains(image, "fill: var(--heat)"));
  CHECK(contains(image, "@media (prefers-color-scheme: dark)"));
  CHECK_FALSE(contains(image, "body"));
  CHECK_FALSE(contains(image, "figcaption"));
}

}  // namespace
