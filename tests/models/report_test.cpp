#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include <attune/models/report/chart.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/log.hpp>
#include <attune/models/report/page.hpp>
#include <attune/tensor/check.hpp>

namespace {

using namespace attune::report;
using Strings = std::vector<std::string>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- Tools of these tests, independent of the code under test
// ------------------------------------

/// One label per code point.
Strings characters(const std::string& text) {
  Strings out;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

/// Every row reads column i * columns / rows.
Heatmap diagonal(Strings rows, Strings columns) {
  Heatmap map{std::move(rows), std::move(columns), {}, {}};
  map.weights.resize(map.rows.size() * map.columns.size());
  for (std::size_t i = 0; i < map.rows.size() && !map.columns.empty(); ++i) {
    map.weights[i * map.columns.size() + i * map.columns.size() / map.rows.size()] = 1;
  }
  return map;
}

Strings lines(const std::string& text) {
  std::istringstream in(text);
  Strings out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

std::uint32_t code_point(const std::string& c) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(c.at(i)); };
  if (byte(0) < 0x80) return byte(0);
  if (byte(0) < 0xE0) return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
  if (byte(0) < 0xF0) return (byte(0) & 0xFu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  return (byte(0) & 7u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
         (byte(3) & 0x3Fu);
}

/// Display width, for the few scripts that appear in these tests.
int width(const std::string& text) {
  int columns = 0;
  for (const std::string& c : characters(without_escapes(text))) {
    const std::uint32_t u = code_point(c);
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

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool contains(const std::string& text, const std::string& part) { return count(text, part) > 0; }

/// What is wrong with `xml`, or nothing: tags that do not match, attributes without quotes or given
/// twice, a bare & or <, characters that XML does not have.
std::string xml_error(const std::string& xml) {
  static const std::regex tag(R"re(^<(/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)re");
  static const std::regex name(R"re(([\w:-]+)="[^"]*")re");
  static const std::regex entity("^&(amp|lt|gt|quot|#39);");
  Strings open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\t' && c != '\n') return "control character";
    const std::string rest = xml.substr(i, 4000);
    std::smatch match;
    if (c == '&' && !std::regex_search(rest, match, entity))
      return "bare & at " + rest.substr(0, 30);
    if (c != '<') continue;
    if (!std::regex_search(rest, match, tag)) return "bad tag at " + rest.substr(0, 60);
    const std::string attributes = match[3];
    Strings seen;
    for (std::sregex_iterator a(attributes.begin(), attributes.end(), name), end; a != end; ++a) {
      for (const std::string& other : seen) {
        if (other == (*a)[1]) return "attribute given twice: " + other;
      }
      seen.push_back((*a)[1]);
    }
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "unexpected </" + match[2].str() + ">";
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    i += static_cast<std::size_t>(match.length()) - 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

std::string thrown_by(const auto& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

/// The path of a file that is gone at the end of the test.
struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("attune_report_test_" + std::to_string(::getpid()) + ".jsonl"))
                         .string();
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void fill(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

const std::string kNasty = "<a href=\"x\">&amp; 'b' ]]> \x01\x7F \xFF\xC3 </svg>";

TEST_CASE("report: the XML check of these tests finds what is wrong") {
  CHECK(xml_error("<a b=\"1\"><c/>&amp;<d>x</d></a>") == "");
  for (const char* bad : {"<a>", "</a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "a & b",
                          "a < b", "\x01", "<a b=\"<\"/>", "&nbsp;", "<a><b></a></b>"}) {
    CAPTURE(bad);
    CHECK(xml_error(bad) != "");
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

TEST_CASE("heatmap: without colour there are no escape sequences") {
  CHECK_FALSE(contains(terminal(diagonal({"a"}, {"b"}), {.colour = false}), "\x1b"));
}

TEST_CASE("heatmap: colour is switched off again at the end of each line") {
  const Strings all = lines(terminal(diagonal({"a", "b"}, {"x", "y", "z"})));
  REQUIRE(all.size() == 3);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(contains(all[i], "\x1b[48;5;"));
    CHECK(all[i].ends_with("\x1b[0m"));
  }
}

TEST_CASE("heatmap: all terminal lines of a date are equally wide") {
  Heatmap map = diagonal(characters("2001-06-27"), characters("Wednesday June 27 2001"));
  map.caption = "Wednesday June 27 2001";
  for (const bool colour : {true, false}) check_aligned(terminal(map, {.colour = colour}));
}

TEST_CASE("heatmap: wide characters line up with their cells") {
  const Heatmap map = diagonal(characters("2001-06-27"), characters("2001年6月27日（水）"));
  const std::string text = terminal(map, {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  2 0 0 1 年6 月2 7 日（水）");
}

TEST_CASE("heatmap: wide and narrow row labels end at the same column") {
  const std::string text = terminal(diagonal({"日本", "a", ""}, {"x"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[2].starts_with("   a "));
}

TEST_CASE("heatmap: an accent stays on its letter and takes no column") {
  const std::string text = terminal(diagonal({"e\u0301"}, {"o\u0308", "n"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  o\u0308 n ");
}

TEST_CASE("heatmap: an accent without a letter gets a dotted circle") {
  const std::string text = terminal(diagonal({"a"}, {"\u0301", "b"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  \u25CC\u0301 b ");
}

TEST_CASE("heatmap: a space shows as ␣, also at the end of a word, but not within one") {
  CHECK(lines(terminal(diagonal({" "}, {" ", "\u3000"})))[0] == "  ␣ ␣ ");
  CHECK(contains(terminal(diagonal({" b"}, {"x"})), "␣b "));
  CHECK(contains(terminal(diagonal({"a b"}, {"x"})), "a b "));
}

TEST_CASE("heatmap: an empty label leaves its column blank") {
  const std::string text = terminal(diagonal({"", "b"}, {"x", "", "z"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  x   z ");
}

TEST_CASE("heatmap: short words stand above their columns") {
  const std::string text = terminal(diagonal({"the", "end"}, {"das", "Ende"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "      E ");
  CHECK(lines(text)[1] == "    d n ");
  CHECK(lines(text)[3] == "    s e ");
  CHECK(lines(text)[4] == "the ██  ");
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
  // Left-to-right marks on both sides hold a letter in its place.
  CHECK(lines(text)[0] == "  \u200Eب\u200E \u200Eت\u200E ");
  // Arabic digits would change places with each other.
  CHECK(lines(terminal(diagonal({"1"}, {"٢", "٧"})))[0] == "  \u200E٢\u200E \u200E٧\u200E ");
}

TEST_CASE("heatmap: isolates stay in a caption, where they are needed, but not in a label") {
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

TEST_CASE("heatmap: a long source takes one column per character before it is cut into panels") {
  const std::string source(60, 's');
  const std::string text = terminal(diagonal({"a"}, characters(source)), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  " + source);
}

TEST_CASE("heatmap: what is wider than the terminal continues in panels, each with all rows") {
  const Heatmap map = diagonal({"x", "y"}, characters("abcdefghijklmnopq"));
  CHECK(terminal(map, {.colour = false, .width = 10}) ==
        "  abcdef\nx █     \ny       \n        \n"
        "  ghijkl\nx       \ny   █   \n        \n"
        "  mnopq \nx       \ny       \n");
  for (const std::string& source :
       {std::string(100, 's'), std::string("日本語の文字").append(60, 's')}) {
    for (const int columns : {10, 11, 20, 39, 80}) {
      const Heatmap wide = diagonal(characters("ab"), characters(source));
      const std::string text = terminal(wide, {.colour = false, .width = columns});
      check_aligned(text, columns);
      CHECK(count(text, "s") == count(source, "s"));
      CHECK_FALSE(contains(text, "…"));
    }
  }
}

TEST_CASE("heatmap: words in panels stand above their columns, numbers go on") {
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

TEST_CASE("heatmap: in a terminal without end the key of numbers has lines of 80 columns") {
  const Heatmap map = diagonal({"a"}, Strings(20, "Donaudampfschifffahrt"));
  const std::string text = terminal(map, {.width = std::numeric_limits<int>::max()});
  check_aligned(text, 80);
  CHECK(lines(text).size() == 2 + 7);  // three to a line
}

TEST_CASE("heatmap: a long row label and a long caption are cut too") {
  Heatmap map = diagonal({std::string(100, 'r')}, characters("abc"));
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

TEST_CASE("heatmap: bytes that are not UTF-8 show as replacement characters") {
  const std::string text = terminal(diagonal({"\xFF"}, {"\xC3", "b"}), {.colour = false});
  check_aligned(text);
  CHECK(lines(text)[0] == "  \uFFFD b ");
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

TEST_CASE("heatmap: small weights are drawn in proportion to the darkest, but told as they are") {
  const std::string image = svg({{"a"}, {"x", "y"}, {0.02, 0.04}, ""}, {.darkest = 0.04});
  CHECK(contains(image, "fill-opacity=\"0.616\"><title>\u2068a\u2069 ← \u2068x\u2069: 0.020<"));
  CHECK(contains(image, "fill-opacity=\"1.000\"><title>\u2068a\u2069 ← \u2068y\u2069: 0.040<"));
}

// ---- Heat map: errors ---------------------------------------------------------------------------

TEST_CASE("heatmap: a wrong number of weights is named with the shape") {
  const Heatmap map{{"a", "b"}, {"x", "y", "z"}, std::vector<double>(7), ""};
  const std::string expected = "heatmap: weights has 7 values, but 2 rows x 3 columns need 6";
  CHECK_THROWS_WITH_AS(terminal(map), expected.c_str(), attune::Error);
  CHECK_THROWS_WITH_AS(svg(map), expected.c_str(), attune::Error);
}

TEST_CASE("heatmap: a weight that is not a finite number >= 0 is named with its place") {
  for (const double bad : {kNaN, kInfinity, -0.25}) {
    const Heatmap map{{"a", "b"}, {"x", "y", "z"}, {0, 0, 0, 0, 0, bad}, ""};
    CHECK_THROWS_AS(svg(map), attune::Error);
    CHECK(thrown_by([&] { terminal(map); }).starts_with("heatmap: weight (row 1, column 2) is "));
  }
}

TEST_CASE("heatmap: a terminal or a cell without room is an error") {
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
  CHECK(xml_error(svg(map, {.cell = 30, .caption = true})) == "");
}

TEST_CASE("heatmap: each cell tells its weight in a tooltip") {
  const Heatmap map{{"2", "7"}, {"a", "b", " "}, {0.125, 0, 1, 0.25, 0.5, 0.0004}, ""};
  const std::string image = svg(map);
  CHECK(count(image, "</title></rect>") == 6);
  CHECK(contains(image, "<title>\u20682\u2069 ← \u2068a\u2069: 0.125</title>"));
  CHECK(contains(image, "<title>\u20687\u2069 ← \u2068b\u2069: 0.500</title>"));
  CHECK(contains(image, "<title>\u20682\u2069 ← \u2068␣\u2069: 1.000</title>"));
}

TEST_CASE("heatmap: the source runs along the top of the SVG, the target down its side") {
  const std::string image = svg(diagonal({"r"}, {"1", "2", "3"}));
  const std::regex text(R"re(<text x="([\d.]+)" y="([\d.]+)"[^>]*>(\w)</text>)re");
  std::vector<std::smatch> found(std::sregex_iterator(image.begin(), image.end(), text), {});
  REQUIRE(found.size() == 4);
  CHECK(found[0][3] == "r");
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(found[i][3] == std::to_string(i));
    CHECK(found[i][2] == found[1][2]);
    CHECK(std::stod(found[i][1]) > std::stod(found[i - 1][1]));
    CHECK(std::stod(found[i][2]) < std::stod(found[0][2]));
  }
}

TEST_CASE("heatmap: characters stand upright in SVG, words are slanted") {
  CHECK_FALSE(contains(svg(diagonal({"a"}, characters("日本語"))), "rotate("));
  CHECK(count(svg(diagonal({"a"}, {"das", "Haus"})), "rotate(-45 ") == 2);
}

TEST_CASE("heatmap: a long label is cut in the drawing, but whole in the tooltip") {
  const std::string word(100, 'w');
  const std::string image = svg(diagonal({"a"}, {word}));
  CHECK(count(image, word) == 1);
  CHECK(contains(image, "www…</text>"));
}

TEST_CASE("heatmap: the caption is drawn only when asked for") {
  Heatmap map = diagonal({"a"}, {"b"});
  map.caption = "what was read";
  CHECK_FALSE(contains(svg(map), ">what was read</text>"));
  CHECK(contains(svg(map, {.caption = true}), ">what was read</text>"));
}

TEST_CASE("heatmap: the SVG takes the page's colours and has its own for light and dark") {
  const std::string image = svg(diagonal({"a"}, {"b"}));
  CHECK(contains(image, "var(--attune-ink,#"));
  CHECK(contains(image, "var(--attune-heat,#"));
  CHECK(contains(image, "@media (prefers-color-scheme:dark)"));
}

// ---- Chart --------------------------------------------------------------------------------------

/// The paths that draw series, in their order.
Strings series_paths(const std::string& image) {
  const std::regex path(R"re(<path d="([^"]*)" fill="none" stroke="currentColor")re");
  Strings out;
  for (std::sregex_iterator i(image.begin(), image.end(), path), end; i != end; ++i) {
    out.push_back((*i)[1]);
  }
  return out;
}

std::size_t points_in(const std::string& path) { return count(path, "M") + count(path, "L"); }

Series ramp(std::size_t size) {
  Series series{"ramp", {}, {}};
  for (std::size_t i = 0; i < size; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(static_cast<double>(i % 7));
  }
  return series;
}

TEST_CASE("chart: a series with more x values than y values is an error that names it") {
  CHECK_THROWS_WITH_AS(svg(Chart{"t", "x", "y", {{"loss", {1, 2, 3}, {1, 2}}}}),
                       "chart: series \"loss\" has 3 x values, but 2 y values", attune::Error);
}

TEST_CASE("chart: without points it says so") {
  for (const Chart& chart : {Chart{}, Chart{"t", "x", "y", {{"empty", {}, {}}}},
                             Chart{"t", "x", "y", {{"nan", {1, 2}, {kNaN, kInfinity}}}},
                             Chart{"t", "x", "y", {{"zero", {1}, {0}}}, true}}) {
    CHECK(contains(svg(chart), ">no data</text>"));
    CHECK(xml_error(svg(chart)) == "");
  }
}

TEST_CASE("chart: one point is a dot") {
  const std::string image = svg(Chart{"t", "x", "y", {{"a", {3}, {0.5}}}});
  CHECK(count(image, "<circle") == 1);
  CHECK(contains(image, "<title>a: (3, 0.5)</title>"));
  CHECK_FALSE(contains(image, "no data"));
}

TEST_CASE("chart: a constant series is a level line inside the plot") {
  for (const double level : {0.0, 3.0, -2.5, 1e-12, 1e9}) {
    const std::string image = svg(Chart{"t", "", "", {{"c", {0, 1, 2}, {level, level, level}}}});
    const std::regex path(R"re(^M[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)L[\d.]+ ([\d.]+)$)re");
    const Strings paths = series_paths(image);
    REQUIRE(paths.size() == 1);
    std::smatch match;
    REQUIRE(std::regex_match(paths[0], match, path));
    CHECK(match[1] == match[2]);
    CHECK(match[1] == match[3]);
  }
}

TEST_CASE("chart: a value that is not finite is a gap in the line") {
  const Series series{"s", {0, 1, 2, 3, 4, 5, 6}, {1, 2, kNaN, 3, kInfinity, 2, 1}};
  const std::string image = svg(Chart{"", "", "", {series}});
  CHECK(count(series_paths(image).at(0), "M") == 3);
  CHECK(points_in(series_paths(image).at(0)) == 5);
  CHECK(count(image, "<circle") == 5);
}

TEST_CASE("chart: on a logarithmic axis values that are not positive are gaps") {
  const Chart chart{"", "", "", {{"s", {0, 1, 2, 3, 4}, {1, 0.1, 0, -1, 0.01}}}, true};
  const std::string image = svg(chart);
  CHECK(count(series_paths(image).at(0), "M") == 2);
  CHECK(points_in(series_paths(image).at(0)) == 3);
}

TEST_CASE("chart: a logarithmic axis gives each power of ten the same room") {
  const Series series{"s", {0, 1, 2, 3}, {1, 10, 100, 1000}};
  const std::string path = series_paths(svg(Chart{"", "", "", {series}, true})).at(0);
  std::vector<double> y;
  const std::regex point(R"re([ML][\d.]+ ([\d.]+))re");
  for (std::sregex_iterator i(path.begin(), path.end(), point), end; i != end; ++i) {
    y.push_back(std::stod((*i)[1]));
  }
  REQUIRE(y.size() == 4);
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(y[i - 1] - y[i] == doctest::Approx((y[0] - y[3]) / 3).epsilon(0.01));
}

TEST_CASE("chart: a long series is thinned to a thousand points and keeps its peaks and ends") {
  Series series = ramp(100000);
  series.y[54321] = 1000;
  series.y.back() = 500;
  const std::string path = series_paths(svg(Chart{"", "", "", {series}})).at(0);
  CHECK(points_in(path) <= 1000);
  CHECK(points_in(path) > 500);
  Series ends{"ramp", {0, 54321, 99999}, {0, 1000, 500}};
  const std::string outline = series_paths(svg(Chart{"", "", "", {ends}})).at(0);
  // The same axes, so the peak and the ends are at the same places.
  const std::size_t peak = outline.find('L'), last = outline.rfind('L');
  CHECK(path.starts_with(outline.substr(0, peak)));
  CHECK(contains(path, outline.substr(peak, last - peak)));
  CHECK(path.ends_with(outline.substr(last)));
}

TEST_CASE("chart: a thousand points are all drawn") {
  CHECK(points_in(series_paths(svg(Chart{"", "", "", {ramp(1000)}})).at(0)) == 1000);
  CHECK(points_in(series_paths(svg(Chart{"", "", "", {ramp(1001)}})).at(0)) <= 1000);
}

TEST_CASE("chart: a gap of a long series stays a gap, also at its beginning") {
  Series series = ramp(50000);
  for (std::size_t i = 0; i < 3000; ++i) series.y[i] = kNaN;
  for (std::size_t i = 20000; i < 25000; ++i) series.y[i] = kNaN;
  const std::string path = series_paths(svg(Chart{"", "", "", {series}})).at(0);
  CHECK(count(path, "M") == 2);
  CHECK(points_in(path) <= 1000);
}

TEST_CASE("chart: ticks are round numbers that share a unit") {
  const std::string image = svg(Chart{"", "", "", {{"s", {0, 12000}, {0.013, 0.987}}}});
  for (const char* label : {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "2k", "4k", "12k"}) {
    CAPTURE(label);
    CHECK(contains(image, ">" + std::string(label) + "</text>"));
  }
}

TEST_CASE("chart: the vertical axis goes as far as is asked for, and on where the data do") {
  const auto with = [](std::vector<double> y) {
    return svg(Chart{.title = "",
                     .x_label = "",
                     .y_label = "",
                     .series = {{"s", {0, 1}, std::move(y)}},
                     .y_includes = {0, 100}});
  };
  for (const std::string& image : {with({100, 100}), with({99.5, 99.5})}) {
    CHECK(contains(image, ">0</text>"));
    CHECK(contains(image, ">100</text>"));
    CHECK_FALSE(contains(image, ">120</text>"));
  }
  CHECK(contains(with({50, 110}), ">150</text>"));
}

TEST_CASE("chart: between whole epochs there are no ticks") {
  const std::string image = svg(Chart{"", "", "", {{"s", {1, 2, 3}, {10, 20, 30}}}});
  CHECK(contains(image, ">2</text>"));
  CHECK_FALSE(contains(image, ">1.5</text>"));
}

TEST_CASE("chart: very small and negative tick labels are readable") {
  CHECK(contains(svg(Chart{"", "", "", {{"s", {0, 1}, {0, 3e-5}}}}), ">3·10⁻⁵</text>"));
  CHECK(contains(svg(Chart{"", "", "", {{"s", {0, 1}, {-2, 0}}}}), ">−2.0</text>"));
  CHECK_FALSE(contains(svg(Chart{"", "", "", {{"s", {0, 1}, {-2, 2}}}}), ">−0</text>"));
  CHECK(contains(svg(Chart{"", "", "", {{"s", {0, 1}, {1e-9, 1e6}}}, true}), ">10⁻⁹</text>"));
}

TEST_CASE("chart: extreme values draw finite coordinates") {
  const double large = std::numeric_limits<double>::max();
  const double small = std::numeric_limits<double>::denorm_min();
  for (const bool log_y : {false, true}) {
    for (const std::vector<double>& y : std::vector<std::vector<double>>{{-large, large},
                                                                         {small, small},
                                                                         {0, small},
                                                                         {1e199, 1e-199},
                                                                         {1e16, 1e16 + 2},
                                                                         {-1e199, 1e199},
                                                                         {1e-300, 1e300},
                                                                         {5, 5},
                                                                         {0.1, 0.1 + 1e-17}}) {
      const std::string image = svg(Chart{"", "", "", {{"s", {0, 1}, y}}, log_y});
      CAPTURE(y[0]);
      CAPTURE(y[1]);
      CHECK(xml_error(image) == "");
      CHECK_FALSE(contains(image, "nan"));
      CHECK_FALSE(contains(image, "inf "));
      CHECK(image.size() < 20000);
    }
  }
}

TEST_CASE("chart: all names are escaped, and read out with the title") {
  const Chart chart{kNasty, kNasty, kNasty, {{kNasty, {1, 2}, {1, 2}}, {"b", {}, {}}}};
  CHECK(xml_error(svg(chart)) == "");
  const std::string image = svg(Chart{"Loss", "", "", {{"train", {}, {}}, {"test", {}, {}}}});
  CHECK(contains(image, "role=\"img\" aria-label=\"Line chart: Loss (train, test)\""));
}

TEST_CASE("chart: more series than colours are told apart by dashes") {
  Chart chart;
  for (int i = 0; i < 8; ++i)
    chart.series.push_back({"s" + std::to_string(i), {0, 1}, {0, 1. * i}});
  const std::string image = svg(chart);
  CHECK(count(image, "class=\"series-1\"") == 4);  // two series, each with its legend
  CHECK(count(image, "stroke-dasharray=\"7 4\"") == 4);
}

TEST_CASE("chart: a series without a name has no entry in the legend") {
  const std::string named = svg(Chart{"", "", "", {{"a", {0, 1}, {0, 1}}}});
  const std::string unnamed = svg(Chart{"", "", "", {{"", {0, 1}, {0, 1}}}});
  CHECK(count(named, "h18\"") == 1);
  CHECK(count(unnamed, "h18\"") == 0);
}

// ---- Page ---------------------------------------------------------------------------------------

Page sample_page() {
  Page page("Title " + kNasty);
  page.heading(kNasty).paragraph(kNasty).definitions({{kNasty, kNasty}, {"BLEU", "31.2"}});
  page.table({kNasty, "n"}, {{kNasty, "1"}, {"b", "2.5"}});
  page.figure(svg(Chart{kNasty, "x", "y", {ramp(10)}}), kNasty);
  page.figure(svg(diagonal({kNasty}, {"a", "b"})), kNasty);
  return page;
}

TEST_CASE("curve: the points of a log that have both fields, scaled") {
  const Series bleu = curve(
      {{{"step", 1}, {"bleu", 0.5}}, {{"step", 2}}, {{"bleu", 1}}, {{"step", 3}, {"bleu", 0.25}}},
      "bleu", "BLEU", 100);
  CHECK(bleu.name == "BLEU");
  CHECK(bleu.x == std::vector<double>{1, 3});
  CHECK(bleu.y == std::vector<double>{50, 25});
}

TEST_CASE("page: it is well formed whatever text it is given") {
  const std::string html = sample_page().html();
  REQUIRE(html.starts_with("<!DOCTYPE html>\n"));
  CHECK(xml_error(html.substr(html.find('\n'))) == "");
  CHECK_FALSE(contains(html, "<a href"));
}

TEST_CASE("page: nothing is fetched: the only address is the name of the SVG namespace") {
  std::string html = sample_page().html();
  const std::string name_space = "xmlns=\"http://www.w3.org/2000/svg\"";
  CHECK(count(html, "http") == 2);
  CHECK(count(html, name_space) == 2);
  CHECK_FALSE(contains(html, "<script"));
  CHECK_FALSE(contains(html, "@import"));
  CHECK_FALSE(contains(html, "url("));
  CHECK_FALSE(contains(html, " src="));
}

TEST_CASE("page: it declares language, encoding, viewport and both colour schemes") {
  const std::string html = Page("t").html();
  CHECK(contains(html, "<html lang=\"en\">"));
  CHECK(contains(html, "<meta charset=\"utf-8\" />"));
  CHECK(contains(html, "content=\"width=device-width, initial-scale=1\""));
  CHECK(contains(html, "color-scheme: light dark"));
  CHECK(contains(html, "@media (prefers-color-scheme: dark)"));
  CHECK(contains(html, "<title>t</title>"));
}

TEST_CASE("page: it defines the colours that the figures ask for") {
  const std::string html = Page("t").html();
  const std::string figures = svg(diagonal({"a"}, {"b"})) + svg(Chart{});
  const std::regex variable(R"re(var\((--attune-(?!series)\w+),(#\w+))re");
  for (std::sregex_iterator i(figures.begin(), figures.end(), variable), end; i != end; ++i) {
    // The fallbacks are the page's own values, for light and for dark.
    CAPTURE(i->str());
    CHECK(contains(html, (*i)[1].str() + ": " + (*i)[2].str() + ";"));
  }
}

TEST_CASE("page: columns of numbers are aligned to the right, other columns are not") {
  const std::string html = Page("t")
                               .table({"name", "score", "date", "list", "mean", "count"},
                                      {{"a", "97.1%", "2001-06-27", "1,2", "98.1 ±0.3", "7"},
                                       {"b", "", "1998-05-03", "1,2345", "5.0", "345"},
                                       {"c", "-1e-3", "1973-10-30", "8", "-", "12,345,678"}})
                               .html();
  CHECK(contains(html, "<td class=\"number\" dir=\"auto\">97.1%</td>"));
  CHECK(contains(html, "<td class=\"number\" dir=\"auto\">-1e-3</td>"));
  CHECK(contains(html, "<td class=\"number\" dir=\"auto\">98.1 ±0.3</td>"));
  CHECK(contains(html, "<td class=\"number\" dir=\"auto\">12,345,678</td>"));
  CHECK(contains(html, "<td dir=\"auto\">8</td>"));
  CHECK(contains(html, "<td dir=\"auto\">2001-06-27</td>"));
  CHECK(contains(html, "<td dir=\"auto\">a</td>"));
}

TEST_CASE("page: a long text breaks and scrolls in its cell, a short one does not") {
  const std::string text(40, 'x');
  const std::string html = Page("t").table({"a"}, {{text}, {text + "y"}}).html();
  CHECK(contains(html, "<td dir=\"auto\">" + text + "</td>"));
  CHECK(contains(html, "<td dir=\"auto\"><div class=\"long\">" + text + "y</div></td>"));
  CHECK(contains(html, "\n.long { "));
}

TEST_CASE("page: a row that is not as long as the header is an error") {
  Page page("t");
  CHECK_THROWS_WITH_AS(page.table({"a", "b"}, {{"1", "2"}, {"3"}}),
                       "page: row 1 of the table has 1 cells, but the header has 2", attune::Error);
  CHECK_FALSE(contains(page.html(), "<table>"));
}

TEST_CASE("page: figures in succession share a grid, charts and heat maps one each") {
  const std::string map = svg(diagonal({"a"}, {"b"})), chart = svg(Chart{});
  Page page("t");
  page.figure(chart, "1").figure(chart, "2").figure(map, "3").figure(map, "4");
  page.paragraph("between").figure(map, "5");
  CHECK(count(page.html(), "<div class=\"figures wide\">") == 1);
  CHECK(count(page.html(), "<div class=\"figures\">") == 2);
  CHECK(count(page.html(), "<figure>") == 5);
}

TEST_CASE("page: a figure without a caption has none") {
  CHECK_FALSE(contains(Page("t").figure("<svg></svg>", "").html(), "<figcaption>"));
}

TEST_CASE("page: a figure that is not an <svg> element is an error") {
  Page page("t");
  CHECK_THROWS_AS(page.figure("<script>", "x"), attune::Error);
  CHECK_THROWS_AS(page.figure("", "x"), attune::Error);
}

TEST_CASE("page: it can be written at any time and grow on") {
  Page page("t");
  page.figure("<svg></svg>", "a");
  const std::string first = page.html();
  CHECK(page.html() == first);
  page.figure("<svg></svg>", "b");
  CHECK(count(page.html(), "<div class=\"figures\">") == 1);
}

TEST_CASE("escape: ordinary text and line breaks stay as they are") {
  CHECK(escape("日本語 العربية e\u0301\n\t") == "日本語 العربية e\u0301\n\t");
  CHECK(escape("<&>\"'") == "&lt;&amp;&gt;&quot;&#39;");
  CHECK(escape("\x07\x1b\x7F") == "␇␛␡");
  CHECK(escape("\xFF|\xED\xA0\x80|\uFFFF").find_first_of("\xED\xFF") == std::string::npos);
}

// ---- Log ----------------------------------------------------------------------------------------

TEST_CASE("log: what is written is read back") {
  const TemporaryFile file;
  {
    LogWriter log(file.path, false);
    log.write({{"step", 1}, {"loss", 0.5}, {"note", "start"}});
    log.write({{"step", 2}, {"loss", 0.25}});
  }
  const auto read = read_log(file.path);
  REQUIRE(read.size() == 2);
  CHECK(read[0] == std::map<std::string, double>{{"step", 1}, {"loss", 0.5}});
  CHECK(read[1] == std::map<std::string, double>{{"step", 2}, {"loss", 0.25}});
}

TEST_CASE("log: a line has the fields in their order and numbers in their shortest form") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"z", 0.1}, {"a", std::int64_t{-3}}, {"m", 1e-7}, {"text", "say \"hi\"\n"}});
  CHECK(file.text() == "{\"z\": 0.1, \"a\": -3, \"m\": 1e-07, \"text\": \"say \\\"hi\\\"\\n\"}\n");
}

TEST_CASE("log: every double reads back as the same bits") {
  using Limits = std::numeric_limits<double>;
  const TemporaryFile file;
  LogWriter log(file.path, false);
  const std::vector<double> values = {1.0 / 3,   Limits::max(), Limits::min(), Limits::denorm_min(),
                                      -0.0,      1e22,          123456789.0,   Limits::epsilon(),
                                      1e15 + .5, 0x1p63,        -0x1p64,       5e-324};
  for (const double value : values) log.write({{"v", value}});
  const auto read = read_log(file.path);
  REQUIRE(read.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(values[i]);
    CHECK(std::memcmp(&read[i].at("v"), &values[i], sizeof(double)) == 0);
  }
}

TEST_CASE("log: a number that is not finite is written as null and read as NaN") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"a", kNaN}, {"b", kInfinity}, {"c", -kInfinity}});
  CHECK(file.text() == "{\"a\": null, \"b\": null, \"c\": null}\n");
  const auto read = read_log(file.path);
  REQUIRE(read.at(0).size() == 3);
  for (const auto& [name, value] : read[0]) CHECK(std::isnan(value));
}

TEST_CASE("log: a line is in the file as soon as it is written") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  CHECK(read_log(file.path).empty());
  log.write({{"step", 1}});
  CHECK(read_log(file.path).size() == 1);
}

TEST_CASE("log: text that is not UTF-8 does not spoil the line") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"bad \xFF name", "bad \xC3 text"}, {"step", 1}});
  CHECK(read_log(file.path).at(0).at("step") == 1);
}

TEST_CASE("log: only numbers are read from a line that others wrote") {
  const TemporaryFile file;
  file.fill("{\"a\": true, \"b\": [1], \"c\": {\"d\": 1}, \"e\": \"1\", \"f\": 2}\r\n{}\n");
  const auto read = read_log(file.path);
  REQUIRE(read.size() == 2);
  CHECK(read[0] == std::map<std::string, double>{{"f", 2}});
  CHECK(read[1].empty());
}

TEST_CASE("log: a last line cut short at any byte is ignored") {
  const TemporaryFile file;
  const std::string first = "{\"step\": 1}\n", second = "{\"step\": 2, \"note\": \"é}\"}";
  for (std::size_t length = 0; length < second.size(); ++length) {
    CAPTURE(length);
    file.fill(first + second.substr(0, length));
    CHECK(read_log(file.path).size() == 1);
  }
  file.fill(first + second);  // whole but for the line break
  CHECK(read_log(file.path).size() == 2);
}

TEST_CASE("log: appending goes on after the lines that are there") {
  const TemporaryFile file;
  LogWriter(file.path, true).write({{"step", 1}});
  LogWriter(file.path, true).write({{"step", 2}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n");
  LogWriter(file.path, false).write({{"step", 3}});
  CHECK(file.text() == "{\"step\": 3}\n");
}

TEST_CASE("log: appending cuts a torn last line back first") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\n{\"step\": 2, \"lo");
  LogWriter(file.path, true).write({{"step", 2}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n");
  file.fill("{\"st");
  LogWriter(file.path, true).write({{"step", 1}});
  CHECK(file.text() == "{\"step\": 1}\n");
}

TEST_CASE("log: appending keeps a last line that lacks only its line break") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\n{\"step\": 2}");
  LogWriter(file.path, true).write({{"step", 3}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
}

TEST_CASE("log: a bad line in the middle is named by file and line") {
  const TemporaryFile file;
  for (const char* bad : {"{\"step\": 2, \"lo", "", "[1, 2]", "{\"step\": 1e999}", "{} {}"}) {
    file.fill("{\"step\": 1}\n" + std::string(bad) + "\n{\"step\": 3}\n");
    CHECK_THROWS_AS(read_log(file.path), attune::Error);
    const std::string message = thrown_by([&] { read_log(file.path); });
    CAPTURE(message);
    CHECK(message.starts_with(file.path + ":2: expected a JSON object, got \""));
    CHECK(lines(message).size() == 1);
  }
}

TEST_CASE("log: a bad last line that is not cut short is an error too") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\nnonsense\n");
  CHECK(thrown_by([&] { read_log(file.path); }) ==
        file.path + ":2: expected a JSON object, got \"nonsense\"");
}

TEST_CASE("log: a path that cannot be opened is named with the reason") {
  const std::string path = "/no/such/directory/train.jsonl";
  for (const bool append : {true, false}) {
    CHECK_THROWS_WITH_AS(LogWriter(path, append),
                         "/no/such/directory/train.jsonl: cannot write the log: "
                         "No such file or directory",
                         attune::Error);
  }
  CHECK_THROWS_WITH_AS(read_log(path),
                       "/no/such/directory/train.jsonl: cannot be read: "
                       "No such file or directory",
                       attune::Error);
  CHECK_THROWS_AS(LogWriter(std::filesystem::temp_directory_path(), false), attune::Error);
  CHECK_THROWS_AS(read_log(std::filesystem::temp_directory_path()), attune::Error);
}

TEST_CASE("log: a field given twice is an error, and nothing is written") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  CHECK_THROWS_WITH_AS(log.write({{"loss", 1.0}, {"loss", 2.0}}),
                       "log: field \"loss\" is given twice", attune::Error);
  CHECK(file.text() == "");
}

TEST_CASE("log: a full disk is an error, and so is every line after it") {
  if (!std::filesystem::exists("/dev/full")) return;
  LogWriter log("/dev/full", false);
  CHECK_THROWS_WITH_AS(log.write({{"step", 1}}),
                       "/dev/full: cannot write the log: No space left on device", attune::Error);
  CHECK_THROWS_AS(log.write({{"step", 2}}), attune::Error);
}

}  // namespace
