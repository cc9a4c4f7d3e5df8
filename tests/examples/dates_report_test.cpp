// `dates report`, run as a user runs it.
#include "program.hpp"
#include "support/capture.hpp"

namespace attune::dates::test {
namespace {

int count(std::string_view text, std::string_view part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++n;
  return n;
}

/// Nothing in the page is fetched from elsewhere.
void check_self_contained(std::string html) {
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK(contains(html, "</html>"));
  constexpr std::string_view name_space = "http://www.w3.org/2000/svg";
  for (std::size_t at; (at = html.find(name_space)) != html.npos;)
    html.erase(at, name_space.size());
  for (const std::string outside : {"http:", "https:", "@import", "url(", "<iframe", "srcset"}) {
    CAPTURE(outside);
    CHECK_FALSE(contains(html, outside));
  }
  for (const std::string_view attribute : {"src=\"", "href=\""}) {
    for (std::size_t at = 0; (at = html.find(attribute, at)) != html.npos;) {
      at += attribute.size();
      const std::string target = html.substr(at, 20);
      CAPTURE(target);
      CHECK((target.starts_with("data:") || target.starts_with("#")));
    }
  }
}

TEST_CASE("dates report: one self-contained page beside the model") {
  const Directory directory;
  output_of(train_tiny(directory.path(), forty_steps + Arguments{"--locales", "en,de"}));
  const std::string out = output_of({"report", "--model", directory / "best.safetensors"});
  CHECK(out == directory / "report.html\n");
  const std::string html = read(directory / "report.html");
  check_self_contained(html);
  CHECK(contents_of(directory.path()).size() == 4);  // two checkpoints, the log and the page
}

TEST_CASE("dates report: learning curves, heat maps and every option of the model") {
  const Directory directory;
  const std::string page = directory / "page.html";
  CHECK(output_of({"report", "--model", Trained::get().model(), "--out", page, "--examples",
                   "5"}) == page + "\n");
  const std::string html = read(page);
  CHECK(contains(html, "Learning curves"));
  CHECK(contains(html, "Training loss"));
  CHECK(count(html, "<svg") == 5 + 2);
  CHECK(count(html, "class=\"attune-heatmap\"") == 5);
  const auto metadata = load_safetensors(Trained::get().model()).metadata;
  for (const auto& [name, value] : metadata) {
    if (name.ends_with("_vocabulary")) continue;
    CAPTURE_BINDING(name);
    CHECK(contains(html, name));
    CHECK(contains(html, value));
  }
  CHECK(contains(html, fmt::format("{:.2f} %", 100 * std::stod(metadata.at("exact_match")))));
  CHECK_FALSE(std::filesystem::exists(Trained::get().directory() + "/report.html"));
}

TEST_CASE("dates report: --file shows the file's examples, with marks of HTML escaped") {
  const Directory directory;
  write(directory / "rows.tsv",
        "27 June 2001\tsomething & <else>\n<b>3</b> May 1979\t1979-05-03\n");
  const std::string page = directory / "page.html";
  output_of({"report", "--model", Trained::get().model(), "--file", directory / "rows.tsv", "--out",
             page});
  const std::string html = read(page);
  check_self_contained(html);
  CHECK(count(html, "class=\"attune-heatmap\"") == 2);
  CHECK(contains(html, "27 June 2001"));
  CHECK(contains(html, "(expected something &amp; &lt;else&gt;)"));
  CHECK(contains(html, "&lt;b&gt;3&lt;/b&gt; May 1979"));
  CHECK_FALSE(contains(html, "<b>3</b>"));
}

TEST_CASE("dates report: of a model trained from files, by their examples or by --file") {
  const Directory directory;
  const std::string out = directory / "out", model = out + "/best.safetensors";
  write(directory / "train.tsv", example_rows(30));
  write(directory / "valid.tsv", "4 July 1976\t1976-07-04\n");
  output_of(train_tiny(out, forty_steps + Arguments{"--train", directory / "train.tsv", "--valid",
                                                    directory / "valid.tsv"}));
  output_of({"report", "--model", model});
  CHECK(contains(read(out + "/report.html"), "4 July 1976"));
  write(directory / "valid.tsv", "5 July 1976\t1976-07-05\n");
  CHECK(contains(error_of({"report", "--model", model}), "it was trained on other pairs"));
  std::filesystem::remove(directory / "train.tsv");
  CHECK(contains(error_of({"report", "--model", model, "--out", directory / "none.html"}),
                 directory / "train.tsv"));
  CHECK_FALSE(std::filesystem::exists(directory / "none.html"));
  output_of({"report", "--model", model, "--file", directory / "valid.tsv"});
  CHECK(contains(read(out + "/report.html"), "5 July 1976"));
}

TEST_CASE("dates report: without a log there are no learning curves, but a page") {
  const Directory directory;
  std::filesystem::copy(Trained::get().model(), directory / "alone.safetensors");
  output_of({"report", "--model", directory / "alone.safetensors", "--examples", "1"});
  const std::string html = read(directory / "report.html");
  CHECK_FALSE(contains(html, "Learning curves"));
  CHECK(count(html, "<svg") == 1);
}

TEST_CASE("dates report: into a directory that is missing it fails and makes none") {
  const Directory directory;
  const std::string page = directory / "missing/page.html";
  const std::string line = error_of({"report", "--model", Trained::get().model(), "--out", page});
  CHECK(contains(line, page + ": cannot be written: No such file or directory"));
  CHECK(contents_of(directory.path()).empty());
}

}  // namespace
}  // namespace attune::dates::test
