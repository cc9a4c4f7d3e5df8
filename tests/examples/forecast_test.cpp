// Tables, their windows, and the networks that forecast.
#include "forecast/forecast.hpp"

#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

#include "support/naive.hpp"
#include "support/scratch_directory.hpp"
#include "tools.hpp"

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
  CHECK(error_of_table("") == "t.csv:0: a header was expected, but the file is empty");
  CHECK(error_of_table("2016-07-01,1\n2016-07-02,2\n") ==
        "t.csv:1: a header was expected, not the first row");
  CHECK(error_of_table("date,a,b,a\n") == "t.csv:1: there are two columns 'a'");
  CHECK(error_of_table("date\n") == "t.csv:1: a header with commas was expected, not 'date'");
  CHECK(error_of_table("date,a\n2016-07-01,1\n") ==
        "t.csv:2: the file ends after less than two rows");
  CHECK(error_of_table(head + "2016-07-01 03:00,5,6\n") ==
        "t.csv:4: 2016-07-01 02:00:00 was expected, in the interval of the first two rows, not "
        "2016-07-01 03:00:00");
  CHECK(error_of_table("date,a\n2016-07-01,1\n2016-07-01,1\n") ==
        "t.csv:3: 2016-07-01 00:00:00 is not after the row before");
  CHECK(error_of_table(head + "2016-07-01 02:00,5\n") ==
        "t.csv:4: 2 columns, but the header has 3");
  CHECK(error_of_table(head + "2016-07-01 02:00,5,x\n") ==
        "t.csv:4: b: a number was expected, not 'x'");
  CHECK(error_of_table(head + "2016-07-01 02:00,5,\n") ==
        "t.csv:4: b: a number was expected, not ''");
  CHECK(error_of_table(head + "2016-07-01 02:00,nan,6\n") ==
        "t.csv:4: a: a number was expected, not 'nan'");
  CHECK(error_of_table(head + "2016-07-01 02:00,1e999,6\n") ==
        "t.csv:4: a: a number was expected, not '1e999'");
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
  CHECK(frames::unscaled(past[1], scaling).to_vector<float>() == std::vector<float>{1, 20, 2, 30});
  CHECK(frames::unscaled(future[0], scaling).to_vector<float>() ==
        std::vector<float>{2, 30, 3, 40});
  CHECK(attune::error_of([&] {
          scaling_of(full({3, 2}, 0.1, DType::f64), columns);
        }) == "forecast: a is the same in all rows of training");
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
    const Tensor forecast = (*network)(past, &weights).value();
    CHECK(weights.size() == (options.kind == Kind::linear || !options.attends ? 0u
                             : options.kind == Kind::lstm                     ? 4u
                                                                              : 2u));
    for (const Tensor& w : weights) CHECK(w.rank() == 2);
    CHECK(forecast.shape() == Shape{4, 2, 3});
    CHECK(gradcheck(params, [&] { return (*network)(past); }, {.step = 2e-4, .allow_zero = true}));
    const Tensor alone = (*network)(slice(past, 1, 1, 2)).value();
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
    const Tensor y = (*network)(past).value(), higher = (*network)(past + 10.0).value();
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
