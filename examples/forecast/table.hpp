// Measurements over time, from CSV files.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune::forecast {

using Time = std::chrono::sys_seconds;

/// Rows at equal distances in time.
struct Table {
  std::vector<std::string> columns;  // without that of the dates
  Time first;
  std::chrono::seconds interval;
  Tensor values;  // (rows, columns) f64

  Index rows() const { return values.dim(0); }
  Time time(Index row) const { return first + row * interval; }
};

/// Reads a header and at least two rows: a date (2016-07-01, 2016-07-01 05:00 or 2016-07-01
/// 05:00:00), and a number in every other column. Throws an Error "FILE:LINE: what is wrong" for
/// anything else: a date that does not follow the one before in the interval of the first two,
/// another number of columns, text or nothing where a number belongs, numbers that are not finite.
Table read_table(const std::filesystem::path& path);

/// Throws an Error where the columns of a file are not those that a model knows, in their order.
void check_columns(const std::filesystem::path& path, const Table& table,
                   std::span<const std::string> columns);

/// 2016-07-01 05:00:00
std::string to_string(Time time);

}  // namespace attune::forecast
