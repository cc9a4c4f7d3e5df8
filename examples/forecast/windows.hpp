// A table cut into parts for training, validation and test, and its windows.
#pragma once

#include <span>
#include <vector>

#include <attune/models/frames/scaling.hpp>

#include "table.hpp"

namespace attune::forecast {

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
