// `forecast`, run as a user runs it.
#include <cmath>

#include <fmt/format.h>

#include "tools.hpp"

namespace attune::forecast {
namespace {

using namespace attune::test;

ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  return run_program(ATTUNE_FORECAST, arguments, std::move(options));
}

std::string output_of(const Arguments& arguments) {
  const ProcessResult result = run(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

std::string error_of(const Arguments& arguments) { return error_line("forecast", run(arguments)); }

/// Two waves of a day, hour by hour, of which the second follows the first.
std::string waves(int rows) {
  std::string csv = "date,first,second\n";
  for (int i = 0; i < rows; ++i) {
    csv += fmt::format("2024-01-{:02} {:02}:00,{:.4f},{:.4f}\n", 1 + i / 24, i % 24,
                       5 + std::sin(i * 0.2618), 3 - 2 * std::cos(i * 0.2618));
  }
  return csv;
}

const Arguments tiny = {"--look-back", "24", "--horizon",   "8",    "--segment",        "4",
                        "--hidden",    "8",  "--attention", "4",    "--dropout",        "0",
                        "--batch",     "16", "--rate",      "0.01", "--validate-every", "20"};

TEST_CASE("forecast: a model learns two waves, is measured, drawn and asked what comes") {
  const Directory directory;
  const std::string csv = directory / "waves.csv", out = directory / "run";
  write(csv, waves(500));
  const std::string best = out + "/best.safetensors";
  output_of(Arguments{"train", "--csv", csv, "--out", out, "--steps", "200"} + tiny);
  const Json errors = Json::parse(output_of({"evaluate", "--model", best, "--json"}));
  CHECK(errors["mse"].get<double>() < 0.05);
  CHECK(errors["mse_by_step"].size() == 8);
  CHECK(contains(output_of({"evaluate", "--model", best}), "mean absolute error"));
  const auto lines = lines_of(output_of({"predict", csv, "--model", best}));
  REQUIRE(lines.size() == 9);
  CHECK(lines[0] == "date,first,second");
  CHECK(lines[1].starts_with("2024-01-21 20:00:00,"));
  output_of({"report", "--model", best});
  const std::string page = read(out + "/report.html");
  CHECK(contains(page, "attended to"));
  CHECK(contains(page, "<svg"));
}

TEST_CASE(
    "forecast train --resume: the bits of a run that was not interrupted, and no other options") {
  const Directory directory;
  const std::string csv = directory / "waves.csv", once = directory / "once",
                    twice = directory / "twice";
  write(csv, waves(300));
  const auto train = [&](const std::string& out, const char* steps, const Arguments& more = {}) {
    return Arguments{"train", "--csv", csv, "--out", out, "--steps", steps} + tiny + more;
  };
  const std::string last = "/last.safetensors";
  output_of(train(once, "400"));
  const ProcessResult ended = run(
      train(twice, "400"),
      {.signal_when = [&] { return std::filesystem::exists(twice + last); }, .signal = SIGTERM});
  CHECK(ended.status == 128 + SIGTERM);
  CHECK(contains(output_of(train(twice, "400", {"--resume"})), "resuming at step "));
  const auto expected = load_safetensors(once + last).tensors,
             actual = load_safetensors(twice + last).tensors;
  REQUIRE(actual.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE_BINDING(name);
    CHECK(std::ranges::equal(bytes_of(actual.at(name)), bytes_of(tensor)));
  }
  CHECK(contains(error_of(train(once, "500", {"--resume", "--hidden", "16"})), "hidden"));
  write(csv, waves(320));
  CHECK(contains(error_of(train(once, "500", {"--resume"})), "it was trained on other rows"));
}

TEST_CASE("forecast predict: small changes of large numbers are not lost") {
  const Directory directory;
  const std::string csv = directory / "large.csv", out = directory / "run";
  std::string text = "date,load\n";
  for (int i = 0; i < 300; ++i)
    text += fmt::format("2024-01-{:02} {:02}:00,{}\n", 1 + i / 24, i % 24, 100000000 + i % 2);
  write(csv, text);
  output_of(Arguments{"train", "--csv", csv, "--out", out, "--steps", "100"} + tiny);
  const auto lines = lines_of(output_of({"predict", csv, "--model", out + "/best.safetensors"}));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const double load = std::stod(lines[i].substr(lines[i].find(',') + 1));
    CHECK(std::abs(load - (100000000.0 + static_cast<double>((i + 1) % 2))) < 0.4);
  }
}

TEST_CASE("forecast compare: a table of variants, horizons and seeds, without training twice") {
  const Directory directory;
  const std::string csv = directory / "waves.csv";
  write(csv, waves(700));
  const Arguments arguments = {"compare",    "--csv",  csv,          "--out", directory / "table",
                               "--variants", "linear", "--horizons", "8,16",  "--seeds",
                               "2",          "--jobs", "2"};
  const std::string table = output_of(arguments);
  CHECK(contains(table, "squared error"));
  CHECK(contains(table, "absolute error"));
  CHECK(contains(table, "4/4"));
  const auto written =
      std::filesystem::last_write_time(directory / "table/linear-8-1/best.safetensors");
  const std::string again = output_of(arguments);
  CHECK(again.substr(again.find("\nsquared")) == table.substr(table.find("\nsquared")));
  CHECK(std::filesystem::last_write_time(directory / "table/linear-8-1/best.safetensors") ==
        written);
}

TEST_CASE("forecast train --resume: a checkpoint with any entry changed goes on or is refused") {
  const Directory directory;
  write(directory / "waves.csv", waves(300));
  output_of(Arguments{"train", "--csv", directory / "waves.csv", "--out", directory / "run",
                      "--steps", "2"} +
            tiny);
  check_resumes_or_refuses("forecast", directory / "run", {"csv"}, [&] {
    return run({"train", "--resume", "--out", directory / "run", "--steps", "3", "--no-report"});
  });
}

TEST_CASE("forecast: the help of every command ends with an example") {
  check_examples(ATTUNE_FORECAST, {"train", "predict", "evaluate", "compare", "report"});
}

TEST_CASE("forecast: errors are one line and status 1") {
  const Directory directory;
  write(directory / "short.csv", waves(30));
  write(directory / "gap.csv", "date,a\n2024-01-01,1\n2024-01-02,2\n2024-01-04,3\n");
  CHECK(contains(error_of({"train"}), "--csv: a file was expected"));
  CHECK(contains(error_of({"train", "--csv", directory / "none.csv"}), "none.csv: "));
  CHECK(contains(error_of({"train", "--csv", directory / "gap.csv"}),
                 "gap.csv:4: 2024-01-03 00:00:00 was expected"));
  CHECK(contains(error_of({"train", "--csv", directory / "short.csv"}),
                 "has 21 rows, but a window reads 720"));
  CHECK(contains(error_of({"compare", "--variants", "best"}), "'best' is not one of linear, lstm"));
  CHECK(contains(error_of({"compare", "--horizons", "24,24"}), "--horizons: 24 is given twice"));
  CHECK(contains(error_of({"compare", "--horizons", "12"}), "--segment: 24 does not divide"));
  CHECK(contains(error_of({"evaluate", "--model", directory / "gap.csv"}), "gap.csv"));
  CHECK(contains(error_of({"train", "--csv", directory / "short.csv", "--out", directory / "run",
                           "--look-back", "10", "--horizon", "2", "--segment", "4"}),
                 "--segment: 4 does not divide"));
}

}  // namespace
}  // namespace attune::forecast
