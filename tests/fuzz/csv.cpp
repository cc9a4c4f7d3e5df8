// Tables of measurements, and the windows that are made of them.
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "forecast/forecast.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

std::string written(const forecast::Table& table) {
  std::string text = fmt::format("date,{}\n", fmt::join(table.columns, ","));
  const double* value = table.values.data<double>();
  for (Index row = 0; row < table.rows(); ++row) {
    text += forecast::to_string(table.time(row));
    for (std::size_t c = 0; c < table.columns.size(); ++c) text += fmt::format(",{}", *value++);
    text += "\n";
  }
  return text;
}

void check_table(const forecast::Table& table) {
  const std::set<std::string> names(table.columns.begin(), table.columns.end());
  expect(!names.empty() && names.size() == table.columns.size(), "no columns, or one twice");
  expect(table.values.shape() == Shape{table.rows(), std::ssize(table.columns)}, "a shape");
  expect(table.rows() >= 2 && table.interval.count() > 0, "one row, or rows of one time");
  for (const double value : table.values.to_vector<double>())
    expect(std::isfinite(value), "a value is not finite");
}

void check_windows(const forecast::Table& table, forecast::Protocol protocol) {
  const auto parts = fuzz::accepted([&] { return forecast::parts_of(table, protocol); });
  if (!parts) return;
  for (const forecast::Part& part : {parts->train, parts->validation, parts->test}) {
    expect(0 <= part.begin && part.begin <= part.end && part.end <= table.rows(), "a part beyond");
    const forecast::NetworkOptions sizes{.look_back = 2, .horizon = 1};
    const auto rows = fuzz::accepted([&] { return forecast::windows_of(part, sizes, "it"); });
    if (!rows) continue;
    const auto [past, future] = forecast::windows_at(table.values.to(DType::f32), sizes, *rows);
    expect(past.dim(1) == std::ssize(*rows) && future.dim(1) == std::ssize(*rows), "windows");
  }
  if (parts->train.begin == parts->train.end) return;
  fuzz::accepted([&] {
    const Tensor rows = table.values.slice(parts->train.begin, parts->train.end);
    const frames::Scaling scaling = forecast::scaling_of(rows, table.columns);
    return frames::unscaled(frames::scaled(table.values, scaling), scaling);
  });
}

}  // namespace

void fuzz_one(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const auto table = fuzz::accepted([&] { return forecast::read_table(file.path()); });
  if (!table) return;
  check_table(*table);
  // A mark of the file's own, so that what the first row begins with is not taken for one.
  const fuzz::MemoryFile again("\xEF\xBB\xBF" + written(*table));
  expect(written(forecast::read_table(again.path())) == written(*table),
         "another table comes back");
  check_windows(*table, forecast::Protocol::shares);
  check_windows(*table, forecast::Protocol::ett);
}
