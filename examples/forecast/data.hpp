// Measurements over time from CSV files, and the windows that networks learn from.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <attune/tensor/tensor.hpp>

#include "support/frames.hpp"

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

/// Of each column, over the rows of training. Throws for a column that never changes.
frames::Scaling scaling_of(const Tensor& values, std::span<const std::string> columns);

/// Rows begin to end (exclusive).
struct Part {
  Index begin = 0, end = 0;
  Index size() const { return end - begin; }
};

/// A table's rows, one part after the other.
struct Parts {
  Part train, validation, test;
};

enum class Protocol {
  shares,  // 70, 10 and 20 % of all rows
  ett,     // that of the published tables: 12, 4 and 4 months of 30 days of hours
};

/// Throws where `ett` is given too few rows, or rows that are not an hour apart.
Parts parts_of(const Table& table, Protocol protocol);

/// What is read, and what is forecast from it.
struct WindowSizes {
  Index look_back = 0, horizon = 0;
};

/// The first target rows of all windows whose targets lie within the part; the rows that are read
/// may lie before it, but not before the table. Throws when there is none.
std::vector<Index> windows_of(const Part& part, const WindowSizes& sizes, const char* what);

/// Windows side by side.
struct Windows {
  Tensor past;    // (look_back, B, C)
  Tensor future;  // (horizon, B, C)
};

/// Those whose targets begin at these rows of values (rows, C).
Windows windows_at(const Tensor& values, const WindowSizes& sizes, std::span<const Index> rows);

}  // namespace attune::forecast
