// `dates evaluate`, run as a user runs it, against computations from what `dates predict` prints.
#include "program.hpp"

namespace attune::dates::test {
namespace {

const Arguments sources = {"27 June 2001", "Wednesday June 27 2001", "16.01.75", "3 May 1979",
                           "Jan 5, 2010",  "12 December 1999"};

std::vector<Json> predictions(const Arguments& dates, const Arguments& more = {}) {
  std::vector<Json> objects;
  for (const std::string& line : lines_of(output_of(predict(Arguments{"--json"} + more + dates))))
    objects.push_back(Json::parse(line));
  REQUIRE(objects.size() == dates.size());
  return objects;
}

Arguments evaluate(const std::string& file, const Arguments& more = {}) {
  return Arguments{"evaluate", "--model", Trained::get().model(), file} + more;
}

/// The one object that --json prints; nothing else may be there.
Json evaluation(const std::string& file, const Arguments& more = {}) {
  const ProcessResult result = run(evaluate(file, Arguments{"--json"} + more));
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(std::ranges::count(result.out, '\n') == 1);
  Json object = Json::parse(result.out);
  CHECK(object.size() == 4);
  return object;
}

/// Places that agree, over the length of the longer text (both ASCII).
double agreement(const std::string& a, const std::string& b) {
  double agree = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) agree += a[i] == b[i];
  return agree / static_cast<double>(std::max(a.size(), b.size()));
}

TEST_CASE("dates --swap: files with the target first are trained on, evaluated and aligned") {
  const Directory directory;
  const std::string plain = directory / "plain.tsv", swapped = directory / "swapped.tsv";
  std::string lines;
  for (const std::string& row : lines_of(example_rows(60))) {
    const std::size_t tab = row.find('\t');
    lines += row.substr(tab + 1) + "\t" + row.substr(0, tab) + "\n";
  }
  write(plain, example_rows(60)), write(swapped, lines);
  const Arguments few = {"--steps", "5"};
  output_of(train_tiny(directory / "a", few + Arguments{"--train", plain}));
  output_of(train_tiny(directory / "b", few + Arguments{"--train", swapped, "--swap"}));
  check_same_tensors(directory / "a/last.safetensors", directory / "b/last.safetensors");
  CHECK(evaluation(swapped, {"--swap"}) == evaluation(plain));
  for (const char* command : {"evaluate", "align"}) {
    CHECK(output_of({command, "--model", directory / "b", swapped}) ==  // as it was trained
          output_of({command, "--model", directory / "a", plain}));
  }
}

TEST_CASE("dates evaluate: exact match and character accuracy are those of what predict writes") {
  const Directory directory;
  for (const Arguments& beam : {Arguments{}, {"--beam", "4"}}) {
    // Targets: right, one character off, a prefix, one character too many, nothing in common.
    std::vector<std::string> written, targets;
    for (const Json& object : predictions(sources, beam)) written.push_back(object["prediction"]);
    targets = written;
    targets[1].back() = targets[1].back() == '9' ? '8' : '9';
    targets[2].resize(6);
    targets[3] += "0";
    targets[4] = "x";
    std::string rows;
    double exact = 0, characters = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      rows += sources[i] + "\t" + targets[i] + "\n";
      exact += written[i] == targets[i];
      characters += agreement(written[i], targets[i]);
    }
    write(directory / "rows.tsv", rows);
    const Json object = evaluation(directory / "rows.tsv", beam);
    CHECK(object.at("examples") == 6);
    CHECK(object.at("exact_match").get<double>() == doctest::Approx(exact / 6));
    CHECK(object.at("character_accuracy").get<double>() == doctest::Approx(characters / 6));
    CHECK(object.at("gold_attention").is_null());
  }
}

TEST_CASE("dates evaluate: gold attention is the mean of the attention on the spans") {
  const Directory directory;
  const std::vector<std::string> spans = {
      "y:8-12 m:3-7 d:0-2",  "d:15-17 y:18-22 m:10-14", "y:6-8", "m:2-5 y:6-10", "d:4-5",
      "y:12-16 m:3-11 d:0-2"};
  // Where the target is what the model writes, forced decoding sees what predict shows.
  const auto objects = predictions(sources);
  std::string rows;
  double total = 0;
  int count = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string target = objects[i]["prediction"];
    REQUIRE(target.size() == 10);
    rows += sources[i] + "\t" + target + "\t" + spans[i] + "\n";
    std::istringstream stream(spans[i]);
    for (std::string span; stream >> span;) {
      const std::size_t begin = std::stoul(span.substr(2));
      const std::size_t end = std::stoul(span.substr(span.find('-') + 1));
      const auto [first, last] = span[0] == 'y'   ? std::pair<std::size_t, std::size_t>(0, 3)
                                 : span[0] == 'm' ? std::pair<std::size_t, std::size_t>(5, 6)
                                                  : std::pair<std::size_t, std::size_t>(8, 9);
      for (std::size_t t = first; t <= last; ++t, ++count) {
        for (std::size_t s = begin; s < end; ++s)
          total += objects[i]["attention"][t][s].get<double>();
      }
    }
  }
  CHECK(count == 8 + 8 + 4 + 6 + 2 + 8);
  rows += "5 June 1988\t1988-06-05\n";  // without spans: not counted
  write(directory / "rows.tsv", rows);
  const Json object = evaluation(directory / "rows.tsv");
  CHECK(object.at("gold_attention").get<double>() == doctest::Approx(total / count).epsilon(1e-4));
}

TEST_CASE("dates evaluate: the order of rows changes no number") {
  const Directory directory;
  const std::string rows = example_rows(40);
  auto lines = lines_of(rows);
  std::ranges::reverse(lines);
  std::string reversed;
  for (const std::string& line : lines) reversed += line + "\n";
  write(directory / "forward.tsv", rows);
  write(directory / "reversed.tsv", reversed);
  const Json a = evaluation(directory / "forward.tsv"), b = evaluation(directory / "reversed.tsv");
  CHECK(a.at("examples") == 40);
  CHECK(a.at("exact_match") == b.at("exact_match"));
  CHECK(a.at("character_accuracy").get<double>() ==
        doctest::Approx(b.at("character_accuracy").get<double>()));
}

TEST_CASE("dates evaluate: the accuracies of the held-out dates are those of the checkpoint") {
  const Directory directory;
  write(directory / "train.tsv", example_rows(60));
  write(directory / "valid.tsv", example_rows(25));
  const std::string out = directory / "out", valid = directory / "valid.tsv";
  output_of(train_tiny(out, Arguments{"--steps", "300", "--rate", "0.01", "--train",
                                      directory / "train.tsv", "--valid", valid}));
  const std::string model = out + "/best.safetensors";
  const Json object = Json::parse(output_of({"evaluate", "--model", model, valid, "--json"}));
  const auto metadata = load_safetensors(model).metadata;
  CHECK(object.at("examples") == 25);
  CHECK(object.at("character_accuracy").get<double>() > 0.3);
  CHECK(object.at("exact_match").get<double>() ==
        doctest::Approx(std::stod(metadata.at("exact_match"))));
  CHECK(object.at("character_accuracy").get<double>() ==
        doctest::Approx(std::stod(metadata.at("character_accuracy"))));
}

TEST_CASE("dates evaluate: the text has the numbers of --json in percent") {
  const Directory directory;
  write(directory / "rows.tsv", "27 June 2001\t2001-06-27\ty:8-12\n3 May 1979\tnever\n");
  const Json object = evaluation(directory / "rows.tsv");
  const std::string out = output_of(evaluate(directory / "rows.tsv"));
  CHECK(contains(out, "examples                   2\n"));
  CHECK(contains(out, fmt::format("exact match         {:>8.2f} %\n",
                                  100 * object.at("exact_match").get<double>())));
  CHECK(contains(out, fmt::format("character accuracy  {:>8.2f} %\n",
                                  100 * object.at("character_accuracy").get<double>())));
  CHECK(contains(out, fmt::format("gold attention      {:>8.4f}\n",
                                  object.at("gold_attention").get<double>())));
}

TEST_CASE("dates evaluate: of more than ten mistakes the ten that it was surest of are listed") {
  const Directory directory;
  Arguments dates;
  std::string rows;
  for (int i = 1; i <= 14; ++i) {
    dates.push_back(fmt::format("{} May 19{}", i, 60 + i));
    rows += dates.back() + "\tnever\n";
  }
  write(directory / "rows.tsv", rows + "27 June 2001\t2001-06-27\n");
  std::vector<std::pair<double, std::string>> expected;
  for (const Json& object : predictions(dates))
    expected.emplace_back(object["probability"], object["source"]);
  std::ranges::stable_sort(expected, std::ranges::greater(), [](const auto& e) { return e.first; });

  const auto lines = lines_of(output_of(evaluate(directory / "rows.tsv")));
  const auto heading = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("probability  written"); });
  REQUIRE(heading != lines.end());
  CHECK((heading - 1)->starts_with("14 mistakes; the 10 "));
  REQUIRE(lines.end() - heading == 11);
  double before = 1;
  for (auto line = heading + 1; line != lines.end(); ++line) {
    const auto& [probability, source] = expected[static_cast<std::size_t>(line - heading - 1)];
    CHECK(line->ends_with("  never       " + source));
    CHECK(std::stod(*line) == doctest::Approx(probability).epsilon(1e-3));
    CHECK(std::stod(*line) <= before);
    before = std::stod(*line);
  }
}

TEST_CASE("dates evaluate: a model without mistakes lists none") {
  const Directory directory;
  const std::string written = predictions({"27 June 2001"}).front()["prediction"];
  write(directory / "rows.tsv", "27 June 2001\t" + written + "\n");
  const std::string out = output_of(evaluate(directory / "rows.tsv"));
  CHECK(contains(out, "exact match           100.00 %\n"));
  CHECK_FALSE(contains(out, "mistake"));
}

}  // namespace
}  // namespace attune::dates::test
