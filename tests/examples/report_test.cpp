// Parts of reports: logs, and HTML pages of heat maps.
#include "attune/report.hpp"

#include <cmath>
#include <cstring>

#include "attune/run_directory.hpp"
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

// ---- HTML page ----------------------------------------------------------------------------------

TEST_CASE("page: well-formed XML for any text, without external resources") {
  for (const char* bad : {"<a>", "</a>", "<a></b>", "<a b=1/>", "a & b", "a < b", "\x01"})
    CHECK(xml_error(bad) != "");  // tests the check
  const Heatmap map = diagonal({kNasty}, {"a", "b"});
  std::string html = page(kNasty, figure(map, kNasty, true) + figure({{}, {}, {}, kNasty}, kNasty));
  REQUIRE(html.starts_with("<!DOCTYPE html>\n"));
  CHECK(count(html, "http") == 2);  // the name space of SVG: of the map, and in the script
  for (const char* fetched : {"<a href", "<script src", "@import", "url(", " src="})
    CHECK_FALSE(contains(html, fetched));
  html.erase(html.find("<script>"), html.find("</script>") - html.find("<script>"));
  html.erase(html.find("</script>"), 9);
  CHECK(xml_error(html.substr(html.find('\n'))) == "");
  for (const char* part : {"<meta charset=\"utf-8\" />", "content=\"width=device-width",
                           "color-scheme: light dark", "@media (prefers-color-scheme: dark)"})
    CHECK_MESSAGE(contains(html, part), part);
}

TEST_CASE("figure: caption, note, and the largest weight of each row for screen readers") {
  Heatmap map = diagonal({"1", "2"}, {"a", "b"});
  map.caption = "\u2068é\u2069 → 12";
  const std::string html = figure(map, "wrong, expected 13", true);
  CHECK(html.starts_with("<figure class=\"wrong\">"));
  CHECK(contains(html, "<strong dir=\"auto\">\u2068é\u2069 → 12</strong>"));
  CHECK(contains(html, "<span class=\"wrong\">wrong, expected 13</span>"));
  CHECK(contains(html, "role=\"img\" aria-label=\"Heat map: \u2068é\u2069 → 12\""));
  CHECK(contains(html,
                 "<desc>\u20681\u2069 ← \u2068a\u2069: 1.000; "
                 "\u20682\u2069 ← \u2068b\u2069: 1.000; </desc>"));
  CHECK_FALSE(contains(figure(map), "class=\"wrong\""));
  CHECK_FALSE(contains(figure(Heatmap{}, "no attention"), "<svg"));
}

TEST_CASE("escape: ordinary text and line breaks are unchanged") {
  CHECK(escape("日本語 العربية e\u0301\n\t") == "日本語 العربية e\u0301\n\t");
  CHECK(escape("<&>\"'\x07\x1b") == "&lt;&amp;&gt;&quot;&#39;␇␛");
  CHECK(escape("\xFF|\xED\xA0\x80|\uFFFF").find_first_of("\xED\xFF") == std::string::npos);
}

}  // namespace
}  // namespace attune::report
