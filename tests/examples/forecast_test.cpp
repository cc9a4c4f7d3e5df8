// `forecast`: tables, their windows, the networks, and the program as a user runs it.
#include "forecast/forecast.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

#include "program.hpp"
#include "support/naive.hpp"
#include "support/scratch_directory.hpp"

namespace attune::forecast {
namespace {

using test::Directory, test::write;

std::string error_of_table(const std::string& text) {
  const Directory directory;
  write(directory / "t.csv", text);
  const std::string error = attune::error_of([&] { read_table(directory / "t.csv"); });
  return error.substr(directory.path().size() + 1);
}

TEST_CASE("read_table: dates with and without a time, numbers, columns") {
  const Directory directory;
  write(directory / "t.csv",
        "date,load,temperature\n2016-02-28 23:00,1,-2.5\n2016-02-29T00:00:00,1e3,4\n\n");
  const Table table = read_table(directory / "t.csv");
  CHECK(table.columns == std::vector<std::string>{"load", "temperature"});
  CHECK(table.values.to_vector<double>() == std::vector<double>{1, -2.5, 1000, 4});
  CHECK(table.rows() == 2);
  CHECK(to_string(table.time(2)) == "2016-02-29 01:00:00");
  write(directory / "days.csv", "date,load\r\n2016-02-28,1\r\n2016-02-29,2\r\n2016-03-01,3");
  CHECK(read_table(directory / "days.csv").interval == std::chrono::hours(24));
  write(directory / "far.csv", "date,load\n0024-02-29,1\n2424-02-29,2\n");
  const Table far = read_table(directory / "far.csv");
  CHECK(to_string(far.time(0)) == "0024-02-29 00:00:00");
  CHECK(to_string(far.time(2)) == "4824-02-29 00:00:00");
}

TEST_CASE("read_table: every mistake is one line with file and line") {
  const std::string head = "date,a,b\n2016-07-01 00:00,1,2\n2016-07-01 01:00,3,4\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "0: a header was expected, but the file is empty"},
      {"2016-07-01,1\n2016-07-02,2\n", "1: a header was expected, not the first row"},
      {"date,a,b,a\n", "1: there are two columns 'a'"},
      {"date\n", "1: a header with commas was expected, not 'date'"},
      {"date,a\n2016-07-01,1\n", "2: the file ends after less than two rows"},
      {head + "2016-07-01 03:00,5,6\n",
       "4: 2016-07-01 02:00:00 was expected, in the interval of the first two rows, not "
       "2016-07-01 03:00:00"},
      {"date,a\n2016-07-01,1\n2016-07-01,1\n",
       "3: 2016-07-01 00:00:00 is not after the row before"},
      {head + "2016-07-01 02:00,5\n", "4: 2 columns, but the header has 3"},
      {head + "2016-07-01 02:00,5,x\n", "4: 'b': a number was expected, not 'x'"},
      {head + "2016-07-01 02:00,5,\n", "4: 'b': a number was expected, not ''"},
      {head + "2016-07-01 02:00,nan,6\n", "4: 'a': a number was expected, not 'nan'"},
      {head + "2016-07-01 02:00,1e999,6\n", "4: 'a': a number was expected, not '1e999'"}};
  for (const auto& [text, error] : cases) CHECK(error_of_table(text) == "t.csv:" + error);
  for (const char* date :
       {"2016-07-32 02:00", "2016-7-1", "2016-07-01 24:00", "2016-07-01 02:60", "July"}) {
    CHECK(error_of_table(head + date + ",5,6\n") ==
          fmt::format("t.csv:4: a date such as 2016-07-01 05:00:00 was expected, not '{}'", date));
  }
}

/// Rows of nothing.
Table rows_every(std::chrono::seconds interval, Index rows) {
  return {
      .columns = {"a"}, .first = {}, .interval = interval, .values = zeros({rows, 1}, DType::f64)};
}

TEST_CASE("parts_of: the published protocol, and shares of any table") {
  using std::chrono::minutes;
  const Parts ett = parts_of(rows_every(minutes(60), 17420), Protocol::ett);
  CHECK(ett.train.end == 8640);
  CHECK(ett.validation.begin == 8640);
  CHECK(ett.validation.end == 11520);
  CHECK(ett.test.begin == 11520);
  CHECK(ett.test.end == 14400);
  const Parts shares = parts_of(rows_every(minutes(15), 105), Protocol::shares);
  CHECK(shares.train.end == 73);
  CHECK(shares.validation.end == 83);
  CHECK(shares.test.end == 105);
  const auto error = [](std::chrono::seconds interval, Index rows) {
    return attune::error_of([&] { parts_of(rows_every(interval, rows), Protocol::ett); });
  };
  CHECK(error(minutes(60), 100) == "--protocol: ett takes 14400 rows, and there are 100");
  CHECK(error(minutes(15), 17420) ==
        "--protocol: ett takes a row for each hour, not for every 900 seconds");
}

TEST_CASE("windows_of: every window whose targets lie in the part, and no other") {
  const NetworkOptions sizes{.look_back = 4, .horizon = 2};
  CHECK(windows_of({0, 8}, sizes, "it") == std::vector<Index>{4, 5, 6});
  CHECK(windows_of({8, 11}, sizes, "it") == std::vector<Index>{8, 9});
  CHECK(windows_of({8, 10}, sizes, "it") == std::vector<Index>{8});
  CHECK(attune::error_of([&] {
          windows_of({8, 9}, sizes, "the end");
        }) == "forecast: the end has 1 rows, but a window reads 4 and forecasts 2");
  CHECK(attune::error_of([&] {
          windows_of({0, 5}, sizes, "the start");
        }) == "forecast: the start has 5 rows, but a window reads 4 and forecasts 2");
}

TEST_CASE("windows_at: what is read ends where the targets begin; scaling there and back") {
  const Tensor values = Tensor::of<double>({5, 2}, {0, 10, 1, 20, 2, 30, 3, 40, 4, 50});
  const std::vector<std::string> columns{"a", "b"};
  const frames::Scaling scaling = scaling_of(values.slice(0, 3), columns);
  const Tensor x = frames::scaled(values, scaling).to(DType::f32);
  CHECK(x[1][0].item() == doctest::Approx(0));
  CHECK(x[2][1].item() == doctest::Approx(std::sqrt(1.5)));
  const Index rows[] = {2, 3};
  const auto [past, future] = windows_at(x, {.look_back = 2, .horizon = 1}, rows);
  const auto off = [&](const Tensor& row, const std::vector<double>& expected) {
    const Tensor own = frames::unscaled(row.to(DType::f64), scaling);
    return difference(own, Tensor::of<double>({2, 2}, expected));
  };
  CHECK(off(past[1], {1, 20, 2, 30}) < 40 * 0x1p-23);  // f32 on the way
  CHECK(off(future[0], {2, 30, 3, 40}) < 40 * 0x1p-23);
  CHECK(attune::error_of([&] {
          scaling_of(full({3, 2}, 0.1, DType::f64), columns);
        }) == "forecast: 'a' is the same in all rows of training");
}

TEST_CASE("scaling_of: the smallest and the largest numbers are scaled as those near 1 are") {
  const std::vector<std::string> columns{"a", "b"};
  const Tensor near_1 = Tensor::of<double>({3, 2}, {0, 1.5, 1, 1.75, 1.5, 1.25});
  const Tensor expected = frames::scaled(near_1, scaling_of(near_1, columns));
  for (const double unit : {1e-310, 1e-170, 1e170, 1e308}) {
    CAPTURE(unit);
    const Tensor x = near_1 * unit;
    const frames::Scaling scaling = scaling_of(x, columns);
    CHECK(difference(frames::scaled(x, scaling), expected) < 1e-8);
    CHECK(difference(frames::unscaled(expected, scaling) / unit, near_1) < 1e-8);
  }
  CHECK(attune::error_of([&] {
          scaling_of(full({3, 2}, 1e-310, DType::f64), columns);
        }) == "forecast: 'a' is the same in all rows of training");
}

/// Each kind, and each way of the segments to attend.
std::vector<NetworkOptions> networks() {
  const NetworkOptions tiny{.look_back = 6,
                            .horizon = 4,
                            .segment = 2,
                            .hidden = 4,
                            .dropout = 0,
                            .score = {.attention = 3}};
  std::vector<NetworkOptions> all(7, tiny);
  all[0].kind = Kind::linear;
  all[1].kind = Kind::lstm;
  all[2].attends = false;
  all[3].score.kind = "location";
  all[4].attention = {.window = nn::Window::local_predictive, .half_width = 1};
  all[5].score.kind = "multi_head";
  all[5].score.attention = 4;
  all[6].score.kind = "location_aware";
  return all;
}

TEST_CASE("networks: shapes, gradients, and one window's forecast does not depend on the others") {
  for (const NetworkOptions& options : networks()) {
    CAPTURE(static_cast<int>(options.kind));
    nn::Parameters params(1, DType::f64);
    const auto network = make_network(params, options, 3);
    const Tensor past = randn({6, 2, 3}, DType::f64);
    std::vector<Tensor> weights;
    const Tensor forecast = network(past, &weights).value();
    CHECK(weights.size() == (options.kind == Kind::linear || !options.attends ? 0u
                             : options.kind == Kind::lstm                     ? 4u
                                                                              : 2u));
    for (const Tensor& w : weights) CHECK(w.rank() == 2);
    CHECK(forecast.shape() == Shape{4, 2, 3});
    CHECK(gradcheck(params, [&] { return network(past, nullptr); },
                    {.step = 2e-4, .allow_zero = true}));
    const Tensor alone = network(slice(past, 1, 1, 2), nullptr).value();
    const Tensor own = slice(forecast, 1, 1, 2);
    CHECK(difference(own, alone) < 1e-12);
  }
}

TEST_CASE(
    "networks: what does not change goes on as it is, but for the LSTM, which does not know "
    "levels") {
  for (const NetworkOptions& options : networks()) {
    if (options.kind == Kind::lstm) continue;
    nn::Parameters params(1);
    const auto network = make_network(params, options, 3);
    const Tensor past = randn({6, 2, 3});
    const Tensor y = network(past, nullptr).value(), higher = network(past + 10.0, nullptr).value();
    CHECK(difference(higher - 10.0, y) < 1e-4);
  }
}

TEST_CASE("networks: a segment that does not fit is named") {
  nn::Parameters params(1);
  CHECK(attune::error_of([&] {
          make_network(params, {.look_back = 6, .horizon = 4, .segment = 3}, 1);
        }) == "--segment: 3 does not divide both the look-back, 6, and the horizon, 4");
}

}  // namespace
}  // namespace attune::forecast

namespace attune::test {
namespace {

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
  Safetensors older = load_safetensors(best);  // with the scaling in f32
  for (const char* name : {"scaling.mean", "scaling.deviation"})
    older.tensors.at(name) = older.tensors.at(name).to(DType::f32);
  older.metadata.erase("attune.checksum");
  older.metadata.erase("attune.checksum_function");
  save_safetensors(directory / "older.safetensors", older);
  CHECK(lines_of(output_of({"predict", csv, "--model", directory / "older.safetensors"})).size() ==
        9);
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
  const Arguments train = Arguments{"train", "--csv", csv, "--steps", "400"} + tiny;
  check_resumes_to_the_same_bits(train, once, twice);
  const Arguments longer = train + Arguments{"--out", once, "--resume", "--steps", "500"};
  check_errors({{longer + Arguments{"--hidden", "16"}, "hidden"}});
  const std::string other =
      "last.safetensors: checkpoint: {} differs: it was trained on other data "
      "than that of {}";
  for (const auto& [row, data] : {std::pair{7, "training_data"}, {220, "validation_data"}}) {
    std::vector<std::string> lines = lines_of(waves(300));
    std::swap_ranges(lines[row].begin() + 16, lines[row].end(), lines[row + 1].begin() + 16);
    write(csv, fmt::format("{}\n", fmt::join(lines, "\n")));
    check_errors({{longer, fmt::format(fmt::runtime(other), data, csv)}});
  }
}

TEST_CASE("forecast predict: small changes of large numbers, and the smallest, are not lost") {
  const Directory directory;
  const std::string csv = directory / "sizes.csv", out = directory / "run";
  const auto numbers = [](std::size_t i) {
    const auto odd = static_cast<double>(i % 2);
    return std::array{100000000 + odd, (1 + odd) * 1e-310, (1 + odd) * 1e300};
  };
  std::string text = "date,load,smallest,largest\n";
  for (std::size_t i = 0; i < 300; ++i)
    text +=
        fmt::format("2024-01-{:02} {:02}:00,{}\n", 1 + i / 24, i % 24, fmt::join(numbers(i), ","));
  write(csv, text);
  output_of(Arguments{"train", "--csv", csv, "--out", out, "--steps", "100"} + tiny);
  const auto lines = lines_of(output_of({"predict", csv, "--model", out + "/best.safetensors"}));
  const auto low = numbers(0), high = numbers(1);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const char* rest = lines[i].c_str();
    for (std::size_t c = 0; c < low.size(); ++c) {
      rest = std::strchr(rest, ',') + 1;
      const double forecast = std::strtod(rest, nullptr);
      CHECK(std::abs(forecast - numbers(i + 1)[c]) < 0.4 * (high[c] - low[c]));
    }
  }
  CHECK(contains(read(out + "/report.html"), "1e-310"));
}

TEST_CASE("forecast compare: a table of variants, horizons and seeds, without training twice") {
  const Directory directory;
  const std::string csv = directory / "waves.csv";
  write(csv, waves(700));
  const Arguments arguments = {"compare",    "--csv",  csv,          "--out", directory / "table",
                               "--variants", "linear", "--horizons", "8,16",  "--seeds",
                               "2",          "--jobs", "2"};
  const std::string table =
      check_compares_once(arguments, "\nsquared", directory / "table/linear-8-1/best.safetensors");
  CHECK(contains(table, "squared error"));
  CHECK(contains(table, "absolute error"));
  CHECK(contains(table, "4/4"));
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
  check_examples(PROGRAM, {"train", "predict", "evaluate", "compare", "report"});
}

TEST_CASE("forecast: errors are one line and status 1") {
  const Directory directory;
  write(directory / "short.csv", waves(30));
  write(directory / "gap.csv", "date,a\n2024-01-01,1\n2024-01-02,2\n2024-01-04,3\n");
  Safetensors other;
  other.metadata["format"] = "attune pairs 1";
  save_safetensors(directory / "pairs.safetensors", other);
  const std::string short_csv = directory / "short.csv", gap = directory / "gap.csv",
                    pairs = directory / "pairs.safetensors";
  check_errors({
      {{"train"}, "--csv: a file was expected"},
      {{"train", "--csv", directory / "none.csv"}, "none.csv: "},
      {{"train", "--csv", gap}, "gap.csv:4: 2024-01-03 00:00:00 was expected"},
      {{"train", "--csv", short_csv}, "has 21 rows, but a window reads 720"},
      {{"compare", "--variants", "best"}, "'best' is not one of linear, lstm"},
      {{"compare", "--horizons", "24,24"}, "--horizons: 24 is given twice"},
      {{"compare", "--horizons", "12"}, "--segment: 24 does not divide"},
      {{"evaluate", "--model", gap}, "gap.csv"},
      {{"evaluate", "--model", pairs}, "it is one of the program 'attune', expected the format"},
      {{"train", "--csv", short_csv, "--out", directory / "run", "--look-back", "10", "--horizon",
        "2", "--segment", "4"},
       "--segment: 4 does not divide"},
  });
}

}  // namespace
}  // namespace attune::test
