// `dates predict`, run as a user runs it.
#include <numeric>

#include "program.hpp"

namespace attune::dates::test {
namespace {

const Arguments some_dates = {"27 June 2001", "Wednesday June 27 2001", "16.01.75", "3 May 1979"};

std::string joined(const Arguments& lines, const std::string& end) {
  std::string text;
  for (const std::string& line : lines) text += line + end;
  return text;
}

/// The JSON objects, one a line, for these dates.
std::vector<Json> predictions(const Arguments& dates, const Arguments& more = {}) {
  std::vector<Json> objects;
  for (const std::string& line : lines_of(output_of(predict(Arguments{"--json"} + more + dates))))
    objects.push_back(Json::parse(line));
  REQUIRE(objects.size() == dates.size());
  return objects;
}

TEST_CASE("dates predict: the date and its probability, a line for each argument") {
  const auto lines = lines_of(output_of(predict(some_dates)));
  REQUIRE(lines.size() == some_dates.size());
  CHECK(lines[0].starts_with("2001-06-27  "));
  CHECK(lines[1].starts_with("2001-06-27  "));
  for (const std::string& line : lines) {
    const double probability = std::stod(line.substr(line.find("  ") + 2));
    CHECK(probability > 0);
    CHECK(probability <= 1);
  }
}

TEST_CASE("dates predict: lines of standard input give what arguments give") {
  const std::string from_arguments = output_of(predict(some_dates));
  CHECK(output_of(predict({}), {.input = joined(some_dates, "\n")}) == from_arguments);
  CHECK(output_of(predict({}), {.input = joined(some_dates, "\r\n")}) == from_arguments);
  const std::string unfinished = joined(some_dates, "\n");
  CHECK(output_of(predict({}), {.input = unfinished.substr(0, unfinished.size() - 1)}) ==
        from_arguments);
}

TEST_CASE("dates predict: an empty line of standard input gives an empty line") {
  const auto lines =
      lines_of(output_of(predict({}), {.input = "\n3 May 1979\n\r\n\n16.01.75\n\n"}));
  REQUIRE(lines.size() == 6);
  for (int empty : {0, 2, 3, 5}) CHECK(lines[static_cast<std::size_t>(empty)].empty());
  CHECK_FALSE(lines[1].empty());
  CHECK_FALSE(lines[4].empty());
  CHECK(output_of(predict({}), {.input = ""}).empty());
}

TEST_CASE("dates predict: --json has a line for each line of standard input, empty ones too") {
  const auto lines =
      lines_of(output_of(predict({"--json"}), {.input = "3 May 1979\n\n16.01.75\n"}));
  REQUIRE(lines.size() == 3);
  CHECK(Json::parse(lines[0]).at("source") == "3 May 1979");
  CHECK(Json::parse(lines[1]).at("source") == "");
  CHECK(Json::parse(lines[1]).at("prediction").is_null());
  CHECK(Json::parse(lines[1]).at("probability").is_null());
  CHECK(Json::parse(lines[2]).at("source") == "16.01.75");
}

TEST_CASE("dates predict: --json has the characters and an attention that sums to 1 in each row") {
  const auto plain = lines_of(output_of(predict(some_dates)));
  const auto objects = predictions(some_dates);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Json& object = objects[i];
    CAPTURE(some_dates[i]);
    CHECK(object.at("source") == some_dates[i]);
    const std::string date = object.at("prediction");
    CHECK(plain[i] == fmt::format("{}  {:.4f}", date, object.at("probability").get<double>()));
    std::string read, written;
    for (const std::string point : object.at("columns")) read += point;
    for (const std::string point : object.at("rows")) written += point;
    CHECK(read == some_dates[i]);
    CHECK(written == date);
    REQUIRE(object.at("attention").size() == object.at("rows").size());
    for (const Json& row : object.at("attention")) {
      const std::vector<double> weights = row;
      REQUIRE(weights.size() == some_dates[i].size());
      for (double weight : weights) CHECK(weight >= 0);
      CHECK(std::accumulate(weights.begin(), weights.end(), 0.0) ==
            doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("dates predict: a column is a code point, not a byte") {
  const Json object = predictions({"3 Mé 1979"}).front();
  CHECK(object.at("columns") == Json({"3", " ", "M", "é", " ", "1", "9", "7", "9"}));
  CHECK(object.at("attention").at(0).size() == 9);
}

TEST_CASE("dates predict: an unknown character is warned of once, on standard error, and read") {
  const ProcessResult result = run(predict({"☃ 3 May ☃ 1979", "4 May ☃ 1979", "3 May 1979"}));
  CHECK(result.status == 0);
  CHECK(result.err == "warning: '☃' was never seen in training and is read as <unk>\n");
  CHECK(lines_of(result.out).size() == 3);
  CHECK_FALSE(contains(result.out, "warning"));
}

TEST_CASE("dates predict: a beam finds nothing less probable than greedy search") {
  Arguments sources = some_dates + Arguments{"1/2/03", "5 6 78", "Maybe 1999", "0", "Tuesday"};
  const auto greedy = predictions(sources), beam = predictions(sources, {"--beam", "3"});
  for (std::size_t i = 0; i < greedy.size(); ++i) {
    CAPTURE(sources[i]);
    const double before = greedy[i].at("probability"), after = beam[i].at("probability");
    CHECK(after <= 1);
    if (greedy[i].at("prediction") == beam[i].at("prediction")) {
      CHECK(after == doctest::Approx(before).epsilon(1e-4));
    } else {
      CHECK(after >= before);
    }
  }
}

TEST_CASE("dates predict: --attention always draws a row per character, never draws none") {
  const std::string plain = output_of(predict({"27 June 2001"}));
  CHECK(output_of(predict({"27 June 2001", "--attention", "never"})) == plain);
  CHECK(output_of(predict({"27 June 2001", "--attention", "auto"})) == plain);  // no terminal
  const auto lines = lines_of(output_of(predict({"27 June 2001", "--attention", "always"})));
  REQUIRE(lines.size() >= 12);
  CHECK(lines[0] + "\n" == plain);
  CHECK(contains(lines[1], "2 7 ␣ J u n e ␣ 2 0 0 1"));
  const std::string date = "2001-06-27";
  for (std::size_t i = 0; i < date.size(); ++i) CHECK(lines[2 + i].starts_with(date.substr(i, 1)));
  for (const std::string& line : lines) CHECK_FALSE(contains(line, "\x1b"));
}

TEST_CASE("dates predict: 10,000 characters are read, one more is refused by argument or line") {
  const std::string longest(10'000, '1');
  CHECK(lines_of(output_of(predict({longest}))).size() == 1);
  const std::string line = error_of(predict({"3 May 1979", longest + "1"}));
  CHECK(contains(line, "argument 2: it has 10001 characters, but at most 10000"));
  CHECK(contains(error_of(predict({}), {.input = "\n\n" + longest + "1\n"}), "standard input:3: "));
  // Code points are counted, not bytes.
  std::string accents;
  for (int i = 0; i < 10'000; ++i) accents += "é";
  CHECK(run(predict({accents})).status == 0);
}

TEST_CASE("dates predict: bytes that are not UTF-8 are refused by argument or line") {
  const std::string argument = error_of(predict({"3 May 1979", "3 M\xe4rz 1979"}));
  CHECK(contains(argument, "argument 2: "));
  CHECK(contains(argument, "byte 4 is not UTF-8"));
  const ProcessResult result = run(predict({}), {.input = "3 May 1979\n\xff\n"});
  const std::string line = error_line(result);
  CHECK(contains(line, "standard input:2: "));
  CHECK(contains(line, "byte 1 of the line (0xFF) is not UTF-8"));
  CHECK(lines_of(result.out).size() == 1);  // the line before it was answered
}

TEST_CASE(
    "dates predict: an empty argument is refused by its number, and the others are answered") {
  const std::string empty = "argument 2: it is empty, but a date was expected";
  const ProcessResult result = run(predict({"3 May 1979", " ", "27 June 2001"}));
  CHECK(result.status == 1);
  CHECK(result.err == "dates: " + empty + "\n");
  CHECK(result.out == output_of(predict({"3 May 1979"})) + output_of(predict({"27 June 2001"})));
}

TEST_CASE("dates predict: a day that no calendar has is flagged") {
  // A model of 40 steps writes digits, but not yet days.
  const Directory directory;
  output_of(train_tiny(directory / "out", forty_steps));
  std::set<bool> seen;
  for (int day = 1; day <= 28; ++day) {
    const Arguments arguments = {"predict", "--model", directory / "out",
                                 fmt::format("{} May 1979", day)};
    const Json json = Json::parse(output_of(arguments + Arguments{"--json"}));
    const std::string date = json["prediction"];
    std::tm read = {};
    const char* end = strptime(date.c_str(), "%Y-%m-%d", &read);
    const int day_of_month = read.tm_mday;
    bool possible = end && *end == 0 && date.size() == 10;
    if (possible) {
      read.tm_hour = 12;
      timegm(&read);  // the 31st of a month of 30 days becomes the 1st of the next
      possible = read.tm_mday == day_of_month;
    }
    CHECK(json["impossible"] == !possible);
    CHECK(contains(output_of(arguments), "impossible: the calendar has no such day") != possible);
    seen.insert(possible);
  }
  CHECK(seen.contains(false));
}

TEST_CASE("dates predict: the directory of a training stands for its best model") {
  const std::string model = Trained::get().model();
  const std::string directory = std::filesystem::path(model).parent_path().string();
  CHECK(output_of({"predict", "--model", "none", "--model", directory, "3 May 1979"}) ==
        output_of({"predict", "--model", model, "3 May 1979"}));
}

TEST_CASE("dates predict: brackets, braces and dashes in an argument are read as on a line") {
  for (const std::string date : {"[3 May, 1979]", "{}", "[]", "-3 May", "--json", "%%", "report"}) {
    CAPTURE(date);
    const std::string from_line = output_of(predict({}), {.input = date + "\n"});
    CHECK(lines_of(from_line).size() == 1);
    CHECK(output_of(predict({"--", date})) == from_line);
  }
  const Directory directory;
  const std::string model = directory / "[a,b]";
  std::filesystem::copy(Trained::get().model(), model);
  CHECK(output_of({"predict", "--model", model, "[]"}) == output_of(predict({"[]"})));
  CHECK(error_of({"predict", "--model", "[a,b]", "x"}).starts_with("dates: [a,b]: "));
  CHECK(contains(error_of({"[a,b]"}), "'[a,b]' is not a command"));
}

TEST_CASE("dates predict: what cannot be written is an error") {
  const std::string command = ATTUNE_DATES " predict --model " + Trained::get().model();
  for (const std::string end : {" '3 May 1979' > /dev/full", " > /dev/full"}) {
    CAPTURE(end);
    CHECK(
        attune::test::run_process({"sh", "-c", command + end}, {.input = "3 May 1979\n"}).status ==
        1);
  }
}

}  // namespace
TEST_CASE("dates predict: a checkpoint of an earlier version gives the dates that it gave") {
  const std::string model = ATTUNE_GOLDEN "/checkpoints/dates.safetensors";
  CHECK(
      output_of({"predict", "--model", model},
                {.input = "May 3, 1979\n5 Apr 09\nSaturday 19 september 1998\nMon 7 Jan 2030\n"}) ==
      "1979-05-03  0.9977\n2009-04-05  0.9314\n1998-09-19  0.9993\n2030-01-07  0.9484\n");
}

}  // namespace attune::dates::test
