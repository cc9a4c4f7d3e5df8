// End-to-end tests of `forecast`: training, CSV formats, errors.
#include <chrono>
#include <cmath>
#include <regex>

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include "program.hpp"

namespace attune::test {
namespace {

struct Files {
  Directory directory;
  std::string csv = directory / "t.csv", weights = directory / "w.safetensors";

  std::string train(const std::string& text, int steps, const Arguments& more = {}) const {
    write(csv, text);
    return output_of(Arguments{"train", csv, "--weights", weights, "--look-back=24", "--horizon=8",
                               "--segment=4", "--hidden=8", "--dropout=0", "--rate=0.01", "--steps",
                               std::to_string(steps)} +
                     more);
  }
  std::string predict(const std::string& text, ProcessOptions options = {}) const {
    write(csv, text);
    return output_of({"predict", csv, "--weights", weights}, std::move(options));
  }
};

/// The time of row i, one row per hour.
std::string hour(int i) { return fmt::format("2024-01-{:02} {:02}:00", 1 + i / 24, i % 24); }

/// Two daily waves, one row per hour; the second is shifted.
std::string waves(int rows) {
  std::string csv = "date,first,second\n";
  for (int i = 0; i < rows; ++i)
    csv += fmt::format("{},{:.4f},{:.4f}\n", hour(i), 5 + std::sin(i * .26), 3 - std::cos(i * .26));
  return csv;
}

TEST_CASE("forecast: trains on two waves, loads, evaluates, draws, and predicts") {
  const Files files;
  const std::string trained = files.train(waves(500), 200),
                    evaluated = output_of({"evaluate", files.csv, "--weights", files.weights});
  CHECK(contains(trained, evaluated));
  CHECK(contains(trained, "Try it: " PROGRAM " predict "));
  CHECK(std::stod(evaluated.substr(evaluated.find("   1 to    8") + 12)) < 0.05);
  CHECK(contains(read(files.directory / "w.svg"), "<svg"));
  std::smatch drawn;  // the bars of eight rows
  REQUIRE(std::regex_search(evaluated, drawn,
                            std::regex("first: .* to .*\n  true      (.*)\n  segments  (.*)\n")));
  CHECK(drawn[1].length() == 8 * 3);
  CHECK(drawn[1].str().substr(0, 3) != drawn[1].str().substr(21));
  CHECK(drawn[2].length() == 8 * 3);
  const auto lines = lines_of(files.predict(waves(500)));
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == "\"date\",\"first\",\"second\"");
  for (int i = 0; i < 8; ++i) {
    CHECK(lines[i + 1].starts_with(hour(500 + i) + ":00,"));
    CHECK(std::abs(std::stod(lines[i + 1].substr(20)) - 5 - std::sin((500 + i) * .26)) < 0.5);
  }
}

TEST_CASE("forecast: large numbers with small changes, tiny numbers, constant columns") {
  const auto numbers = [](int i) {
    const double odd = i % 2;
    return std::array{10000000000 + odd, (1 + odd) * 1e-310, (1 + odd) * 1e300, 0.0, 7.0};
  };
  std::string text = "date,load,smallest,largest,nothing,same\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{},{}\n", hour(i), fmt::join(numbers(i), ","));
  const Files files;
  files.train(text, 100);
  const auto lines = lines_of(files.predict(text));
  const std::array step{1.0, 1e-310, 1e300, 0.1, 0.1};
  for (int i = 1; i < 9; ++i) {
    const char* rest = lines[i].c_str();
    for (std::size_t c = 0; c < step.size(); ++c) {
      rest = std::strchr(rest, ',') + 1;
      CHECK(std::abs(std::strtod(rest, nullptr) - numbers(i + 1)[c]) < 0.4 * step[c]);
    }
  }
}

std::string table(auto time, const char* format = "{},{},{}\n", const char* header = "date,a,b\n") {
  std::string csv = header;
  for (int i = 0; i < 30; ++i)
    csv += fmt::format(fmt::runtime(format), time(i), i % 7 + 0.5, i % 5 - 2.5);
  return csv;
}

TEST_CASE("forecast: reads all dialects of CSV and time formats equally") {
  const Files files;
  const std::string base = table(hour);
  files.train(base, 1, {"--parts", "18,6,6", "--look-back", "8", "--horizon", "4"});
  const std::string plain = files.predict(base);
  CHECK(files.predict(base, {.environment = {{"ATTUNE_THREADS", "3"}}}) == plain);
  const auto changed = [&](const char* from, const char* to) {
    return std::regex_replace(base, std::regex(from), to);
  };
  for (const std::string& csv :
       {changed("\n", "\r\n"), changed("\n", "\r"), changed("\n", "\n\n"), "\xEF\xBB\xBF" + base,
        changed(",", " , "), changed(",0", ",+0"), changed(",", "\t"),
        std::regex_replace(changed(",", ";"), std::regex("[.]"), ","),
        table(hour, "\"{}\",\"{}\",\" {}\"\n", "\"date\",\"a\",\"b\"\n"),
        changed(":00,", ":00:00.000,"), changed(" 0", "T0"), changed("2024-01-", "2024/1/")})
    CHECK_MESSAGE(files.predict(csv) == plain, csv);
  const std::string in_utc = std::regex_replace(plain, std::regex(":00,"), ":00Z,");
  for (const std::string& csv :
       {changed(":00,", ":00Z,"), changed(":00,", ":00:00 +0000,"),
        table([](int i) { return i % 2 == 0 ? hour(i) + "+00:00" : hour(i + 2) + "+02:00"; })})
    CHECK_MESSAGE(files.predict(csv) == in_utc, csv);
  const auto next = [&](auto time) {  // the time after rows 0 to 29
    return lines_of(std::regex_replace(files.predict(table(time)), std::regex(",.*"), ""))[1];
  };
  const auto month = [](int i) { return fmt::format("{}-{:02}", 2000 + i / 12, 1 + i % 12); };
  CHECK(next(month) == "2002-07-01 00:00:00");
  CHECK(next([](int i) { return hour(i) + ":00 +02:00"; }) == "2024-01-02 04:00:00Z");
  CHECK(next([](int i) { return fmt::format("2024-01-{:02}+02:00", 1 + i); }) ==
        "2024-01-30 22:00:00Z");
  CHECK(next([&](int i) { return month(i) + "-15"; }) == "2002-07-15 00:00:00");
  CHECK(
      next([](int i) { return fmt::format("0024-01-{:02}", 1 + i); }).ends_with("01-31 00:00:00"));
  CHECK(next([](int i) { return fmt::format("2024-01-01 00:00:{:04.1f}", 0.5 + 0.1 * i); }) ==
        "2024-01-01 00:00:03.500000");
  const auto end_of = [](int month, int step) {
    return [=](int i) {
      const std::chrono::year_month then =
          std::chrono::year(2001) / std::chrono::month(static_cast<unsigned>(month)) +
          std::chrono::months(i * step);
      return fmt::format("{:%F}", std::chrono::sys_days(then / std::chrono::last));
    };
  };
  CHECK(next(end_of(2, 1)) == "2003-08-31 00:00:00");
  CHECK(next(end_of(4, 1)) == "2003-10-31 00:00:00");
  CHECK(next(end_of(6, 3)) == "2008-12-31 00:00:00");
  CHECK(next(end_of(2, 12)) == "2031-02-28 00:00:00");
  for (const int step : {28, 30, 91, 364})
    CHECK(next([=](int i) {
            return fmt::format("{:%F}", std::chrono::sys_days(std::chrono::days(11354 + i * step)));
          }) == fmt::format("{:%F} 00:00:00",
                            std::chrono::sys_days(std::chrono::days(11354 + 30 * step))));
}

TEST_CASE("forecast: preserves quotes in column names") {
  const Files files;
  const std::string header = "\"date\",\"a \"\"b\"\", c\",\"d\"\n";
  const std::string csv = table(hour, "{},{},{}\n", header.c_str());
  files.train(csv, 1, {"--parts", "18,6,6", "--look-back", "8", "--horizon", "4"});
  CHECK(files.predict(csv).starts_with(header));
  for (const char* other : {"\"date, UTC\";a;b\n", "\"date; UTC\";a;b\n"}) {
    const std::string semicolons = table(hour, "{};{};{}\n", other);
    files.train(semicolons, 1, {"--parts", "18,6,6", "--look-back", "8", "--horizon", "4"});
    CHECK(files.predict(semicolons).starts_with(std::string(other, 11)));
  }
}

TEST_CASE("forecast: refuses weights of other columns, and changed options") {
  const Files files;
  files.train(waves(100), 1);
  const std::string before = read(files.weights);
  for (const auto& [value, error] :
       {std::pair(
            "1e60",
            "a value is too far from the mean of its column: (100, 2), element (70, 1) is inf"),
        {"4e38", "linear: the validation error is not finite"}}) {
    std::string huge = "date,first,second\n";  // in the validation rows
    for (int i = 0; i < 100; ++i)
      huge += fmt::format("{},{},{}\n", hour(i), i % 7, i < 70 ? std::to_string(i % 5) : value);
    write(files.csv, huge);
    const auto failed = run({"train", files.csv, "--weights", files.weights, "--look-back=24",
                             "--horizon=8", "--segment=4", "--hidden=8", "--steps", "1"});
    CHECK(failed.status == 1);
    CHECK(contains(failed.err, error));
  }
  CHECK(read(files.weights) == before);
  write(files.csv, waves(100));
  const std::string svg = files.directory / "w.svg";
  write(svg, before);
  check_errors(
      {{{"evaluate", files.csv, "--weights", svg}, "is also read or written by this program"},
       {{"predict", files.csv, "--weights", files.weights, "--hidden", "128"},
        "--hidden: " + files.weights + " was trained with '8'"},
       {{"predict", files.csv, "--weights", files.weights, "--horizon", "16"},
        "--horizon: " + files.weights + " was trained with '8'"},
       {{"evaluate", files.csv, "--weights", files.weights, "--parts", "50,25,25"},
        "--parts: " + files.weights + " was trained with '70,10,20'"},
       {{"train", files.csv, "--weights", files.csv}, "is also read or written by this program"},
       {{"train", files.csv, "--weights", "w.svg"}, "is also read or written by this program"}});
  CHECK(read(files.csv) == waves(100));
}

TEST_CASE("forecast: does not scale a constant column, despite rounding errors of its mean") {
  const Files files;
  std::string csv = "date,first,second\n";
  for (int i = 0; i < 100; ++i) csv += fmt::format("{},{},{}\n", hour(i), i % 7, i < 80 ? 0.1 : 1);
  const std::string printed = files.train(csv, 1);
  CHECK(std::stod(printed.substr(printed.find("   1 to    8") + 12)) < 1e3);
}

TEST_CASE("forecast: reports invalid CSV in one line, with file and line") {
  const Files files;
  const std::string good = "date,a\n2024-01-01,1\n2024-01-02,2\n";
  std::vector<std::pair<std::string, std::string>> cases = {
      {"", ":1: expected a header of several columns, got ''"},
      {"date\n", ":1: expected a header of several columns, got 'date'"},
      {"2024-01-01,1\n", ":1: expected a header of several columns"},
      {"date,a\n2024-01-01,1\n", ":2: expected at least two rows"},
      {"date,a\n2024-01-02,1\n2024-01-01,1\n", ":3: expected a later time"},
      {good + "2024-01-04,1\n", ":4: expected 2024-01-03 00:00:00, got '2024-01-04'"},
      {good + "2024-01-03,1,1\n", ":4: expected a row of 2 fields, got '2024-01-03,1,1'"},
      {good + "2024-01-03,\"1\n", ":4: expected a closing quote"},
      {"date,\xff\n", ":1: "}};
  for (const std::string number : {"", "NaN", "1e999", "+-1", "0x1", "1.2.3"})
    cases.push_back({good + "2024-01-03," + number + "\n",
                     ":4: expected a number in column 'a', got '" + number + "'"});
  for (const std::string time :
       {"2024-01-32", "2024-02-30", "1/2/2024", "3/1/24 0:00", "2024-01-03 24:00",
        "2024-01-03 02:60", "2024-01-03 02:00:00.5e1", "2024-01-03 02:00 o'clock", "45294", "July"})
    cases.push_back({good + time + ",1\n", ":4: expected a time such as 2016-07-01 05:00:00"});
  for (const auto& [text, error] : cases) {
    write(files.csv, text);
    const std::string line = sole_error_of({"train", files.csv});
    CHECK_MESSAGE(line.starts_with("forecast: " + files.csv + error), line);
  }
}

TEST_CASE("forecast: all scores, or none; errors are one line and status 1") {
  const Files files;
  for (const char* score : {"none", "dot", "location_aware", "multi-head"})
    files.train(waves(100), 1, {"--score", score});
  const std::string other = files.directory / "other.csv", &csv = files.csv;
  Safetensors bad = load_safetensors(files.weights);
  fill(bad.tensors.at("output.b"), NAN);
  save_safetensors(files.directory / "bad", bad);
  write(other, table(hour));
  check_errors(
      {{{}, "usage: forecast train|evaluate|predict FILE.csv"},
       {{"forecast", csv}, "usage: "},
       {{"train", other + "x"}, "other.csvx: "},
       {{"train", csv}, "70 training rows, from row 0 on, are too few for look-back 720 and"},
       {{"train", csv, "--segment", "7"}, "--segment: 7 must divide look-back 720 and horizon 96"},
       {{"train", csv, "--score", "best"}, "best"},
       {{"train", csv, "--parts", "50,50"}, "--parts: expected three numbers"},
       {{"train", csv, "--parts", "50,25,999"}, "--parts: 1074 rows in total, but "},
       {{"train", csv, "--parts", "50,25,5", "--look-back", "8", "--horizon", "8", "--segment",
         "4"},
        "5 test rows, from row 75 on, are too few for look-back 8 and horizon 8"},
       {{"evaluate", csv, "--weights", csv}, "t.csv"},
       {{"predict", csv, "--weights", files.directory / "bad"}, "output.b is not finite"},
       {{"evaluate", other, "--weights", files.weights}, "its columns differ from those of "}});
}

}  // namespace
}  // namespace attune::test
