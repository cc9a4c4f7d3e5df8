// `dates align`, run as a user runs it.
#include <cmath>
#include <numeric>

#include "program.hpp"

namespace attune::dates::test {
namespace {

const std::string rows = "3 May 1979\t1979-05-03\n\n27 June 2001\t2001-06-27\n";

struct Pairs {
  Pairs() { write(file, rows); }
  Directory directory;
  std::string file = directory / "rows.tsv";
};

Arguments align(const std::string& file, const Arguments& more = {}) {
  return Arguments{"align", "--model", Trained::get().model(), file} + more;
}

std::vector<Json> json_of(const std::string& file, const Arguments& more = {}) {
  std::vector<Json> objects;
  for (const std::string& line :
       lines_of(output_of(align(file, Arguments{"--format", "json"} + more))))
    objects.push_back(Json::parse(line));
  return objects;
}

TEST_CASE("dates align: what predict would have written has the attention that predict shows") {
  const Json predicted = Json::parse(output_of(predict({"--json", "27 June 2001"})));
  const Directory directory;
  write(directory / "rows.tsv",
        "3 May\t1979-05-03\n27 June 2001\t" + predicted["prediction"].get<std::string>() + "\n");
  const Json aligned = json_of(directory / "rows.tsv").at(1);
  CHECK(aligned.at("source") == predicted.at("columns"));
  CHECK(aligned.at("target") == predicted.at("rows"));
  REQUIRE(aligned.at("weights").size() == predicted.at("attention").size());
  for (std::size_t t = 0; t < aligned["weights"].size(); ++t) {
    for (std::size_t s = 0; s < 12; ++s) {
      CHECK(aligned["weights"][t][s].get<double>() ==
            doctest::Approx(predicted["attention"][t][s].get<double>()).epsilon(1e-4));
    }
  }
}

TEST_CASE("dates align: by --rule previous a character has the weights of the step after it") {
  const Pairs pairs;
  const auto current = json_of(pairs.file), previous = json_of(pairs.file, {"--rule", "previous"});
  REQUIRE(current.size() == 2);
  REQUIRE(previous.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(previous[i]["target"] == current[i]["target"]);
    REQUIRE(current[i]["weights"].size() == 10);
    REQUIRE(previous[i]["weights"].size() == 10);
    for (std::size_t t = 0; t + 1 < 10; ++t)
      CHECK(previous[i]["weights"][t] == current[i]["weights"][t + 1]);
    CHECK(previous[i]["weights"][9] != current[i]["weights"][9]);  // those of the end
  }
}

TEST_CASE("dates align: Pharaoh links each character to the largest weight of its row") {
  const Pairs pairs;
  for (const Arguments& rule : {Arguments{}, {"--rule", "previous"}}) {
    std::string expected;
    for (const Json& object : json_of(pairs.file, rule)) {
      std::vector<std::pair<std::size_t, std::size_t>> links;
      for (std::size_t t = 0; t < 10; ++t) {
        const std::vector<double> weights = object["weights"][t];
        links.emplace_back(std::ranges::max_element(weights) - weights.begin(), t);
      }
      std::ranges::sort(links);
      std::string line;
      for (const auto& [s, t] : links)
        line += fmt::format("{}{}-{}", line.empty() ? "" : " ", s, t);
      expected += line + "\n";
    }
    CHECK(output_of(align(pairs.file, rule)) == expected);
  }
}

TEST_CASE(
    "dates align: scores are log-probabilities of the characters and the end, and their sum") {
  const Directory directory;
  const Json predicted = Json::parse(output_of(predict({"--json", "27 June 2001"})));
  const std::string written = predicted["prediction"];
  write(directory / "rows.tsv", "27 June 2001\t" + written + "\n27 June 2001\t2001-06-28\n");
  const auto lines = lines_of(output_of(align(directory / "rows.tsv", {"--format", "scores"})));
  REQUIRE(lines.size() == 2);
  std::vector<double> totals;
  for (const std::string& line : lines) {
    CHECK(std::ranges::count(line, '\t') == 3);
    std::istringstream stream(line.substr(line.find('\t', 13) + 1));
    double total = 0, one = 0, sum = 0;
    int count = 0;
    for (stream >> total; stream >> one; ++count) sum += one;
    CHECK(count == 11);
    CHECK(sum == doctest::Approx(total).epsilon(1e-4));
    totals.push_back(total);
  }
  CHECK(lines[0].starts_with("27 June 2001\t" + written + "\t"));
  CHECK(std::exp(totals[0]) ==
        doctest::Approx(predicted["probability"].get<double>()).epsilon(1e-4));
  CHECK(totals[1] < totals[0]);
}

TEST_CASE("dates align: a table for each pair as TSV, with a line between them") {
  const Pairs pairs;
  const auto lines = lines_of(output_of(align(pairs.file, {"--format", "tsv"})));
  REQUIRE(lines.size() == 2 * (1 + 10 + 1));
  CHECK(lines[0] == "\t3\t \tM\ta\ty\t \t1\t9\t7\t9");
  CHECK(lines[1].starts_with("1\t"));
  CHECK(lines[11].empty());
  CHECK(lines[12].starts_with("\t2\t7\t "));
}

TEST_CASE("dates align: NPY has one array of float32 after the other") {
  const Pairs pairs;
  const std::string bytes = output_of(align(pairs.file, {"--format", "npy"}));
  CHECK(bytes.starts_with("\x93NUMPY"));
  CHECK(contains(bytes, "'shape': (10, 10)"));
  CHECK(contains(bytes, "'shape': (10, 12)"));
  CHECK(bytes.size() == 2 * 128 + 4 * (10 * 10 + 10 * 12));
}

TEST_CASE("dates align: drawings, in the terminal, as SVG of one pair, and as a page of any") {
  const Pairs pairs;
  const std::string drawn = output_of(align(pairs.file, {"--format", "terminal"}));
  CHECK(contains(drawn, "3 ␣ M a y ␣ 1 9 7 9"));
  CHECK(contains(drawn, "2 7 ␣ J u n e"));
  CHECK_FALSE(contains(drawn, "\x1b"));
  const std::string page = output_of(align(pairs.file, {"--format", "html"}));
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(contains(page, "1979-05-03"));
  CHECK(contains(error_of(align(pairs.file, {"--format", "svg"})),
                 "--format: svg draws one pair, not 2: html was expected"));
  write(pairs.file, "3 May 1979\t1979-05-03\n");
  CHECK(output_of(align(pairs.file, {"--format", "svg"})).starts_with("<svg"));
}

TEST_CASE("align: the name of --out says the form, unless --format does") {
  const Pairs pairs;
  for (const auto& [form, end] :
       {std::pair("html", "HTML"), std::pair("json", "json"), std::pair("npy", "npy"),
        std::pair("pharaoh", "pharaoh"), std::pair("pharaoh", "txt"), std::pair("scores", "scores"),
        std::pair("tsv", "tsv")}) {
    const std::string out = pairs.directory / (std::string("weights.") + end);
    output_of(align(pairs.file, {"--out", out}));
    CHECK(read(out) == output_of(align(pairs.file, {"--format", form})));
  }
  CHECK(error_of(align(pairs.file, {"--out", pairs.directory / "weights.foo"})) ==
        "dates: --out: '.foo' says no form, expected one of .html .json .npy .pharaoh .scores .svg "
        ".tsv .txt, or --format");
  const std::string out = pairs.directory / "weights.json";
  output_of(align(pairs.file, {"--out", out, "--format", "pharaoh"}));
  CHECK(read(out) == output_of(align(pairs.file)));
}

TEST_CASE("dates align: --out has what standard output would have") {
  const Pairs pairs;
  const std::string out = pairs.directory / "links";
  CHECK(output_of(align(pairs.file, {"--out", out})).empty());
  CHECK(read(out) == output_of(align(pairs.file)));
  const std::string line = error_of(align(pairs.file, {"--out", pairs.directory / "no/links"}));
  CHECK(contains(line, "no/links: cannot be written: No such file or directory"));
}

TEST_CASE("dates align: a target that the model cannot write is refused by file and line") {
  const Pairs pairs;
  write(pairs.file, rows + "3 May\t1979/05/03\n");
  CHECK(error_of(align(pairs.file)) == "dates: " + pairs.file + ":4: the model cannot write '/'");
  write(pairs.file, rows + "3 May\n");
  CHECK(contains(error_of(align(pairs.file)), pairs.file + ":4: one column"));
  CHECK(contains(error_of(align(pairs.directory / "none")), "none: cannot be read"));
  CHECK(contains(error_of(align(pairs.file, {"--format", "xml"})),
                 "--format: 'xml' is not one of auto, html, json, npy, pharaoh, scores, svg"));
  CHECK(contains(error_of(align(pairs.file, {"--rule", "next"})),
                 "'next' is not one of current, previous"));
}

TEST_CASE("dates align: a model without attention has scores and nothing else") {
  const Pairs pairs;
  const std::string out = pairs.directory / "out", model = out + "/best.safetensors";
  output_of(train_tiny(out, forty_steps + Arguments{"--model", "sutskever"}));
  const Arguments arguments = {"align", "--model", model, pairs.file};
  CHECK(lines_of(output_of(arguments + Arguments{"--format", "scores"})).size() == 2);
  CHECK(error_of(arguments) ==
        "dates: " + model + ": the model has no attention: --format scores was expected");
}

}  // namespace
}  // namespace attune::dates::test
