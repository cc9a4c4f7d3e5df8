// Parts of reports: logs, charts, and the HTML page.
#include "attune/report.hpp"

#include <cmath>
#include <cstring>
#include <regex>

#include "attune/chart.hpp"
#include "support/errors.hpp"
#include "support/report_tools.hpp"
#include "tools.hpp"

namespace attune::report {
namespace {

using namespace attune::test;

struct LogFile {
  Directory directory;
  std::string path = directory / "log.jsonl";
  void fill(const std::string& text) const { write(path, text); }
  std::string text() const { return read(path); }
};

TEST_CASE("log: writes fields in order, numbers in their shortest form, unbuffered") {
  const LogFile file;
  LogWriter log(file.path, false);
  CHECK(read_log(file.path).empty());
  log.write({{"z", 0.1}, {"a", std::int64_t{-3}}, {"m", 1e-7}, {"text", "say \"hi\"\n"}});
  CHECK(file.text() == "{\"z\":0.1,\"a\":-3,\"m\":1e-07,\"text\":\"say \\\"hi\\\"\\n\"}\n");
  log.write({{"bad \xFF name", "bad \xC3 text"}, {"step", 2}});
  CHECK(read_log(file.path) == Log{{{"z", 0.1}, {"a", -3}, {"m", 1e-7}}, {{"step", 2}}});
}

TEST_CASE("log: doubles read back bit for bit, non-finite ones as NaN") {
  using Limits = std::numeric_limits<double>;
  const LogFile file;
  for (const double value : {1.0 / 3, Limits::max(), Limits::denorm_min(), -0.0, 1e22, 123456789.0,
                             1e15 + .5, 0x1p63, -0x1p64}) {
    CAPTURE(value);
    LogWriter(file.path, false).write({{"v", value}});
    CHECK(std::memcmp(&read_log(file.path).at(0).at("v"), &value, sizeof value) == 0);
  }
  LogWriter(file.path, false).write({{"a", kNaN}, {"b", kInfinity}, {"c", -kInfinity}});
  CHECK(file.text() == "{\"a\":null,\"b\":null,\"c\":null}\n");
  const Log log = read_log(file.path);
  for (const auto& [name, value] : log.at(0)) CHECK(std::isnan(value));
  file.fill("{\"a\": true, \"b\": [1], \"c\": {\"d\": 1}, \"e\": \"1\", \"f\": 2}\r\n{}\n");
  CHECK(read_log(file.path) == Log{{{"f", 2}}, {}});
}

TEST_CASE("log: ignores an incomplete last line") {
  const LogFile file;
  const std::string first = "{\"step\": 1}\n", second = "{\"step\": 2, \"note\": \"é}\"}";
  for (std::size_t length = 0; length <= second.size(); ++length) {
    CAPTURE(length);
    const bool whole = length == second.size();  // except the line break
    file.fill(first + second.substr(0, length));
    CHECK(read_log(file.path).size() == (whole ? 2 : 1));
  }
  file.fill(first);
  LogWriter(file.path, true).write({{"step", 3}});
  CHECK(file.text() == first + "{\"step\":3}\n");
  LogWriter(file.path, false).write({{"step", 3}});
  CHECK(file.text() == "{\"step\":3}\n");
}

TEST_CASE("log: reports an invalid line with file and line, a failing file with the reason") {
  const LogFile file;
  for (const char* bad : {"{\"step\": 2, \"lo", "", "[1, 2]", "{\"step\": 1e999}", "{} {}"}) {
    file.fill("{\"step\": 1}\n" + std::string(bad) + "\n{\"step\": 3}\n");
    CHECK(error_of([&] {
            read_log(file.path);
          }).starts_with(file.path + ":2: expected a JSON object, got '"));
  }
  const std::string none = file.directory / "none/log.jsonl";
  CHECK_ERROR(none + ": cannot write the log: No such file or directory", LogWriter(none, true));
  LogWriter log("/dev/full", false);
  CHECK_ERROR("/dev/full: cannot write the log: No space left on device", log.write({{"step", 1}}));
  CHECK_ERROR("/dev/full: the log was closed after a failed write", log.write({{"step", 2}}));
}

// ---- Charts -------------------------------------------------------------------------------------

std::string drawn(std::vector<double> x, std::vector<double> y, bool log_y = false) {
  return svg(Chart{"", "", "", {{"s", std::move(x), std::move(y)}}, log_y});
}

/// The SVG path of the first series.
std::string path_in(const std::string& image) {
  const std::regex path(R"re(<path d="([^"]*)" fill="none" stroke="currentColor")re");
  std::smatch match;
  REQUIRE(std::regex_search(image, match, path));
  return match[1];
}

std::size_t points_in(const std::string& path) { return count(path, "M") + count(path, "L"); }

std::vector<double> heights_in(const std::string& path) {
  std::vector<double> y;
  const std::regex point(R"re([ML][\d.]+ ([\d.]+))re");
  for (std::sregex_iterator i(path.begin(), path.end(), point), end; i != end; ++i)
    y.push_back(std::stod((*i)[1]));
  return y;
}

TEST_CASE("chart: one point is a dot, no points are reported, a constant is a horizontal line") {
  CHECK(contains(drawn({3}, {0.5}), "<title>s: (3, 0.5)</title>"));
  CHECK(contains(drawn({1, 2}, {kNaN, kInfinity}), ">no data</text>"));
  CHECK(contains(drawn({1}, {0}, true), ">no data</text>"));
  for (const double level : {0.0, 3.0, -2.5, 1e-12, 1e9}) {
    const std::vector<double> y = heights_in(path_in(drawn({0, 1, 2}, {level, level, level})));
    CHECK(y == std::vector<double>(3, y.at(0)));
  }
}

TEST_CASE("chart: non-finite values, and values without a logarithm, are gaps") {
  const std::string path = path_in(drawn({0, 1, 2, 3, 4, 5, 6}, {1, 2, kNaN, 3, kInfinity, 2, 1})),
                    log = path_in(drawn({0, 1, 2, 3, 4}, {1, 0.1, 0, -1, 0.01}, true));
  CHECK(count(path, "M") == 3);
  CHECK(points_in(path) == 5);
  CHECK(count(log, "M") == 2);
  CHECK(points_in(log) == 3);
  const std::vector<double> y = heights_in(path_in(drawn({0, 1, 2, 3}, {1, 10, 100, 1000}, true)));
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(y.at(i - 1) - y.at(i) == doctest::Approx((y.at(0) - y.at(3)) / 3).epsilon(0.01));
}

TEST_CASE("chart: ticks are round numbers, integers for integer data; extremes stay finite") {
  const std::string image = drawn({0, 12'000}, {0.013, 0.987}),
                    epochs = drawn({1, 2, 3}, {1, 2, 3});
  for (const char* label : {"0", "0.2", "0.8", "1", "2000", "12000"})
    CHECK_MESSAGE(contains(image, ">" + std::string(label) + "</text>"), label);
  CHECK(contains(epochs, ">2</text>"));
  CHECK_FALSE(contains(epochs, ">1.5</text>"));
  for (const double a : {-1e308, -1.0, 0.0, 5e-324, 1e-9, 1e308}) {
    for (const double b : {-1e-300, 1e-9, 1e6, 1e199}) {
      for (const bool log : {false, true}) {
        const std::string extreme = drawn({a, b}, {b, a}, log);
        CHECK(xml_error(extreme) == "");
        CHECK_FALSE(contains(extreme, "nan"));
        CHECK(extreme.size() < 20'000);
      }
    }
  }
}

TEST_CASE("chart: names are escaped, in legend and aria-label; dashes after six colours") {
  Chart chart{kNasty, kNasty, kNasty, {{kNasty, {1, 2}, {1, 2}}, {"b", {}, {}}}};
  CHECK(xml_error(svg(chart)) == "");
  chart = {"Loss", "", "", {{"train", {}, {}}, {"test", {}, {}}}};
  CHECK(contains(svg(chart), "role=\"img\" aria-label=\"Line chart Loss: train, test\""));
  CHECK(count(svg(chart), "h18\"") == 2);  // legend entries
  while (chart.series.size() < 8) chart.series.push_back({"s", {0, 1}, {0, 1}});
  CHECK(count(svg(chart), "stroke-dasharray=\"7 4\"") == 4);  // two series and their legend entries
}

TEST_CASE("curve: the points of a log that have both fields, scaled") {
  const Series bleu = curve(
      {{{"step", 1}, {"bleu", 0.5}}, {{"step", 2}}, {{"bleu", 1}}, {{"step", 3}, {"bleu", 0.25}}},
      "bleu", "BLEU", 100);
  CHECK(bleu.x == std::vector<double>{1, 3});
  CHECK(bleu.y == std::vector<double>{50, 25});
}

// ---- HTML page ----------------------------------------------------------------------------------

TEST_CASE("page: well-formed XML for any text, without external resources") {
  for (const char* bad : {"<a>", "</a>", "<a></b>", "<a b=1/>", "a & b", "a < b", "\x01"})
    CHECK(xml_error(bad) != "");  // tests the check
  const std::string html =
      pairs::drawings_page(kNasty, {{diagonal({kNasty}, {"a", "b"}), kNasty},
                                    {diagonal({"a"}, Strings(30, "b")), pairs::isolated("é")}});
  REQUIRE(html.starts_with("<!DOCTYPE html>\n"));
  CHECK(xml_error(html.substr(html.find('\n'))) == "");
  CHECK(count(html, "http") == count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* fetched : {"<a href", "<script", "@import", "url(", " src="})
    CHECK_FALSE(contains(html, fetched));
  for (const char* part : {"<meta charset=\"utf-8\" />", "content=\"width=device-width",
                           "color-scheme: light dark", "@media (prefers-color-scheme: dark)"})
    CHECK_MESSAGE(contains(html, part), part);
  CHECK(count(html, "<figure") == 2);
  CHECK(count(html, "<figure class=\"wide\">") == 1);
  CHECK(contains(html, "<figcaption>\u2068é\u2069</figcaption>"));
}

TEST_CASE("escape: ordinary text and line breaks are unchanged") {
  CHECK(escape("日本語 العربية e\u0301\n\t") == "日本語 العربية e\u0301\n\t");
  CHECK(escape("<&>\"'\x07\x1b") == "&lt;&amp;&gt;&quot;&#39;␇␛");
  CHECK(escape("\xFF|\xED\xA0\x80|\uFFFF").find_first_of("\xED\xFF") == std::string::npos);
}

}  // namespace
}  // namespace attune::report
