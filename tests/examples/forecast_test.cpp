// `forecast` as a user runs it: what it learns, the CSV files that it reads, and those that it refuses.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "program.hpp"

namespace attune::test {
namespace {

/// The time of row i, from one hour to the next.
std::string hour(int i) { return fmt::format("2024-01-{:02} {:02}:00", 1 + i / 24, i % 24); }

/// Two waves of a day, hour by hour, of which the second follows the first.
std::string waves(int rows) {
  std::string csv = "date,first,second\n";
  for (int i = 0; i < rows; ++i)
    csv += fmt::format("{},{:.4f},{:.4f}\n", hour(i), 5 + std::sin(i * 0.2618),
                       3 - 2 * std::cos(i * 0.2618));
  return csv;
}

Arguments train(const std::string& csv, const std::string& weights, int steps) {
  return {"train",     csv, "--weights", weights, "--look-back", "24",
          "--horizon", "8", "--segment", "4",     "--hidden",    "8",
          "--dropout", "0", "--rate",    "0.01",  "--steps",     std::to_string(steps)};
}

TEST_CASE("forecast: learns two waves, is read again, measured, drawn, and says what comes") {
  const Directory directory;
  const std::string csv = directory / "waves.csv", weights = directory / "w.safetensors";
  write(csv, waves(500));
  const std::string trained = output_of(train(csv, weights, 200)),
                    evaluated = output_of({"evaluate", csv, "--weights", weights});
  CHECK(trained.ends_with(evaluated));
  const std::string total = evaluated.substr(evaluated.find("   1 to    8"));
  double mse = 1;
  CHECK(std::sscanf(total.c_str(), " 1 to 8 %lf", &mse) == 1);
  CHECK(mse < 0.05);
  CHECK(contains(read(directory / "w.svg"), "<svg"));
  const auto lines = lines_of(output_of({"predict", csv, "--weights", weights}));
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == "\"date\",\"first\",\"second\"");
  for (int i = 0; i < 8; ++i) {
    CHECK(lines[i + 1].starts_with(hour(500 + i) + ":00,"));
    const double first = std::strtod(lines[i + 1].c_str() + 20, nullptr);
    CHECK(first == doctest::Approx(5 + std::sin((500 + i) * 0.2618)).epsilon(0.1));
  }
}

TEST_CASE("forecast: without attention, with other scores, and the same for any threads") {
  const Directory directory;
  const std::string csv = directory / "waves.csv", weights = directory / "w.safetensors";
  write(csv, waves(300));
  for (const char* score : {"none", "dot", "location_aware", "multi_head"})
    output_of(train(csv, weights, 2) + Arguments{"--score", score});
  const std::string one = output_of({"predict", csv, "--weights", weights});
  CHECK(one == output_of({"predict", csv, "--weights", weights},
                         {.environment = {{"ATTUNE_THREADS", "3"}}}));
}

TEST_CASE("forecast: small changes of large numbers, the smallest, and those of one value") {
  const Directory directory;
  const std::string csv = directory / "sizes.csv", weights = directory / "w.safetensors";
  const auto numbers = [](int i) {
    const double odd = i % 2;
    return std::array{100000000 + odd, (1 + odd) * 1e-310, (1 + odd) * 1e300, 0.0, 7.0};
  };
  std::string text = "date,load,smallest,largest,nothing,same\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("{},{}\n", hour(i), fmt::join(numbers(i), ","));
  write(csv, text);
  output_of(train(csv, weights, 100));
  const auto lines = lines_of(output_of({"predict", csv, "--weights", weights}));
  const auto low = numbers(0), high = numbers(1);
  for (int i = 1; i < 9; ++i) {
    const char* rest = lines[i].c_str();
    for (std::size_t c = 0; c < low.size(); ++c) {
      rest = std::strchr(rest, ',') + 1;
      const double off = std::abs(std::strtod(rest, nullptr) - numbers(i + 1)[c]);
      CHECK(off <= 0.4 * std::max(high[c] - low[c], c < 3 ? 0 : 0.1));
    }
  }
}

/// What follows the last of these rows: the output of `predict` for 24 rows and more with two columns.
std::string predicted(const Directory& directory, const std::string& csv) {
  const std::string path = directory / "t.csv", weights = directory / "w.safetensors";
  write(path, csv);
  return output_of({"predict", path, "--weights", weights});
}

/// A table whose times are written by `time`.
template <class F>
std::string table(F time, const char* format = "{},{},{}\n", const char* header = "date,a,b\n") {
  std::string csv = header;
  for (int i = 0; i < 30; ++i)
    csv += fmt::format(fmt::runtime(format), time(i), i % 7 + 0.5, i % 5 - 2.5);
  return csv;
}

TEST_CASE("forecast: dialects of CSV and of times are read alike") {
  const Directory directory;
  write(directory / "train.csv", table(hour));
  output_of(train(directory / "train.csv", directory / "w.safetensors", 1) +
            Arguments{"--parts", "18,6,6", "--look-back", "8", "--horizon", "4"});
  const std::string plain = predicted(directory, table(hour));
  CHECK(lines_of(plain)[1].starts_with("2024-01-02 06:00:00,"));
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
      text.replace(at, from.size(), to);
    return text;
  };
  const std::string base = table(hour);
  for (const std::string& csv :
       {changed(base, "\n", "\r\n"), changed(base, "\n", "\r"), changed(base, "\n", "\n\n"),
        "\xEF\xBB\xBF" + base, changed(base, ",", " , "), changed(base, ",0.5", ",+0.5"),
        changed(changed(base, ",", ";"), ".5", ",5"), changed(base, ",", "\t"),
        table(hour, "\"{}\",\"{}\",\" {}\"\n", "\"date\",\"a\",\"b\"\n"),
        changed(base, ":00,", ":00:00.000,"), changed(base, " 0", "T0"),
        changed(base, "2024-01-", "2024/1/"), changed(base, ":00,", ":00Z,"),
        changed(base, ":00,", ":00:00 +00:00,")}) {
    CAPTURE(csv);
    CHECK(predicted(directory, csv) == plain);
  }
  // The first time after those of rows 0 to 29.
  const auto next = [&](auto time) {
    return lines_of(predicted(directory, table(time)))[1].substr(0, 26);
  };
  const auto month = [](int i) { return fmt::format("{}-{:02}", 2000 + i / 12, 1 + i % 12); };
  CHECK(next(month).starts_with("2002-07-01 00:00:00,"));
  CHECK(next([&](int i) { return month(i) + "-15"; }).starts_with("2002-07-15 00:00:00,"));
  CHECK(next([](int i) { return fmt::format("0024-01-{:02}", 1 + i); }).starts_with("0024-01-31 "));
}

TEST_CASE("forecast: what it does not read is one line with file and line") {
  const Directory directory;
  const std::string path = directory / "t.csv", good = "date,a\n2024-01-01,1\n2024-01-02,2\n";
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {"", ":0: a header of several columns was expected, not ''"},
           {"date\n", ":1: a header of several columns was expected, not 'date'"},
           {"2024-01-01,1\n", ":1: a header of several columns"},
           {"date,a\n2024-01-01,1\n", ":2: two rows were expected"},
           {"date,a\n2024-01-02,1\n2024-01-01,1\n", ":3: a later time was expected"},
           {good + "2024-01-04,1\n", ":4: 2024-01-03 00:00:00 was expected, not '2024-01-04'"},
           {good + "2024-01-03,1,1\n", ":4: a row of 2 fields was expected, not '2024-01-03,1,1'"},
           {good + "2024-01-03,\n", ":4: 'a': a number was expected, not ''"},
           {good + "2024-01-03,NaN\n", ":4: 'a': a number was expected, not 'NaN'"},
           {good + "2024-01-03,1e999\n", ":4: 'a': a number was expected, not '1e999'"},
           {good + "2024-01-03,+-1\n", ":4: 'a': a number was expected, not '+-1'"},
           {good + "2024-01-03,\"1\n", ":4: the end of a quote was expected"},
           {"date,\xff\n", ":1: "}}) {
    write(path, text);
    const std::string line = sole_error_of({"train", path});
    CHECK_MESSAGE(line.starts_with("forecast: " + path + error), line);
  }
  for (const char* time :
       {"2024-01-32", "2024-02-30", "1/2/2024", "3/1/24 0:00", "2024-01-03 24:00",
        "2024-01-03 02:60", "2024-01-03 02:00 o'clock", "45294", "July"}) {
    write(path, good + time + ",1\n");
    CAPTURE(time);
    CHECK(contains(sole_error_of({"train", path}), ":4: a time such as 2016-07-01 05:00:00 was "));
  }
}

TEST_CASE("forecast: errors are one line and status 1") {
  const Directory directory;
  const std::string csv = directory / "waves.csv", other = directory / "other.csv",
                    weights = directory / "w.safetensors";
  write(csv, waves(100));
  write(other, table(hour));
  output_of(train(csv, weights, 1));
  check_errors({{{}, "usage: forecast train|evaluate|predict FILE.csv"},
                {{"forecast", csv}, "usage: "},
                {{"train", directory / "none.csv"}, "none.csv: "},
                {{"train", csv}, "100 rows are too few to read 720 and forecast 96"},
                {{"train", csv, "--segment", "7"}, "--segment: it must divide"},
                {{"train", csv, "--score", "best"}, "best"},
                {{"evaluate", csv, "--weights", csv}, "waves.csv"},
                {{"evaluate", other, "--weights", weights}, "its columns are not those of "}});
}

}  // namespace
}  // namespace attune::test
