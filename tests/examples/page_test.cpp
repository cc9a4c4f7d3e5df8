#include "attune/page.hpp"

#include <regex>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "attune/chart.hpp"
#include "support/report_tools.hpp"

namespace {

using namespace attune::report;
using namespace attune::test;

TEST_CASE("report: the XML check of these tests finds what is wrong") {
  CHECK(xml_error("<a b=\"1\"><c/>&amp;<d>x</d></a>") == "");
  for (const char* bad : {"<a>", "</a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "a & b",
                          "a < b", "\x01", "<a b=\"<\"/>", "&nbsp;", "<a><b></a></b>"}) {
    CAPTURE(bad);
    CHECK(xml_error(bad) != "");
  }
}

Page sample_page() {
  Page page("Title " + kNasty);
  page.heading(kNasty).paragraph(kNasty).definitions({{kNasty, kNasty}, {"BLEU", "31.2"}});
  page.table({kNasty, "n"}, {{kNasty, "1"}, {"b", "2.5"}});
  page.figure(svg(Chart{kNasty, "x", "y", {{"ramp", {0, 1, 2}, {3, 0, 6}}}}), kNasty);
  page.figure(svg(diagonal({kNasty}, {"a", "b"})), kNasty);
  return page;
}

TEST_CASE("page: it is well formed whatever text it is given, and fetches nothing") {
  const std::string html = sample_page().html();
  REQUIRE(html.starts_with("<!DOCTYPE html>\n"));
  CHECK(xml_error(html.substr(html.find('\n'))) == "");
  // The only address is the name of the SVG namespace.
  CHECK(count(html, "http") == 2);
  CHECK(count(html, "xmlns=\"http://www.w3.org/2000/svg\"") == 2);
  for (const char* fetched : {"<a href", "<script", "@import", "url(", " src="}) {
    CAPTURE(fetched);
    CHECK_FALSE(contains(html, fetched));
  }
}

TEST_CASE("page: it declares language, encoding, viewport and both colour schemes") {
  const std::string html = Page("t").html();
  for (const char* part :
       {"<html lang=\"en\">", "<meta charset=\"utf-8\" />",
        "content=\"width=device-width, initial-scale=1\"", "color-scheme: light dark",
        "@media (prefers-color-scheme: dark)", "<title>t</title>"}) {
    CAPTURE(part);
    CHECK(contains(html, part));
  }
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
  for (const char* number : {"97.1%", "-1e-3", "98.1 ±0.3", "12,345,678"})
    CHECK(contains(html, fmt::format("<td class=\"number\" dir=\"auto\">{}</td>", number)));
  for (const char* text : {"8", "2001-06-27", "a"})
    CHECK(contains(html, fmt::format("<td dir=\"auto\">{}</td>", text)));
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

TEST_CASE("page: a share has its counts beside it") {
  CHECK(attune::share(1990, 2000) == "99.50 %: 1,990 of 2,000");
  CHECK(attune::share(0, 0) == "0.00 %: 0 of 0");
}

TEST_CASE("page: a figure is wide where its drawing is, and has a caption where one is given") {
  const std::string narrow = svg(diagonal({"a"}, {"b"})), chart = svg(Chart{}),
                    wide = svg(diagonal({"a"}, Strings(30, "b")));
  Page page("t");
  page.figure(chart, "1").figure(narrow, "2");
  const std::string before = page.html();  // the page can be written at any time, and grow on
  CHECK(page.html() == before);
  page.figure(wide, "3").paragraph("between").figure(narrow, "");
  CHECK(count(page.html(), "<figure class=\"wide\">") == 2);
  CHECK(count(page.html(), "<figure>") == 2);
  CHECK(count(page.html(), "<figcaption>") == 3);
  for (const char* other : {"<script>", ""})
    CHECK_THROWS_AS(page.figure(other, "x"), attune::Error);
}

TEST_CASE("escape: ordinary text and line breaks stay as they are") {
  CHECK(escape("日本語 العربية e\u0301\n\t") == "日本語 العربية e\u0301\n\t");
  CHECK(escape("<&>\"'") == "&lt;&amp;&gt;&quot;&#39;");
  CHECK(escape("\x07\x1b\x7F") == "␇␛␡");
  CHECK(escape("\xFF|\xED\xA0\x80|\uFFFF").find_first_of("\xED\xFF") == std::string::npos);
}

}  // namespace
