#include "windows.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::forecast {

frames::Scaling scaling_of(const Tensor& values, std::span<const std::string> columns) {
  frames::Moments moments;
  moments.add(values);
  const frames::Scaling scaling = moments.scaling();
  const std::vector<double> deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < deviation.size(); ++i) {
    if (deviation[i] == 0)
      fail("forecast", fmt::format("{} is the same in all rows of training", columns[i]));
  }
  frames::check(scaling);
  return scaling;
}

Parts parts_of(const Table& table, Protocol protocol) {
  constexpr Index month = 30 * 24;
  const bool ett = protocol == Protocol::ett;
  const Index rows = table.rows(), train = ett ? 12 * month : rows * 7 / 10,
              validation = ett ? 4 * month : rows / 10,
              test = ett ? 4 * month : rows - train - validation;
  if (ett && table.interval != std::chrono::hours(1)) {
    fail("--protocol", fmt::format("ett takes a row for each hour, not for every {} seconds",
                                   table.interval.count()));
  }
  if (train + validation + test > rows) {
    fail("--protocol",
         fmt::format("ett takes {} rows, and there are {}", train + validation + test, rows));
  }
  return {.train = {0, train},
          .validation = {train, train + validation},
          .test = {train + validation, train + validation + test}};
}

std::vector<Index> windows_of(const Part& part, const WindowSizes& sizes, const char* what) {
  const Index first = std::max(part.begin, sizes.look_back), last = part.end - sizes.horizon;
  if (first > last) {
    fail("forecast", fmt::format("{} has {} rows, but a window reads {} and forecasts {}", what,
                                 part.size(), sizes.look_back, sizes.horizon));
  }
  std::vector<Index> rows(static_cast<std::size_t>(last - first + 1));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

Windows windows_at(const Tensor& values, const WindowSizes& sizes, std::span<const Index> rows) {
  const Index columns = values.dim(1), batch = std::ssize(rows);
  const float* from = values.data<float>();
  const auto cut = [&](Index offset, Index steps) {
    Tensor x = Tensor::uninitialized({steps, batch, columns});
    float* to = x.mutable_data<float>();
    for (Index t = 0; t < steps; ++t) {
      for (const Index row : rows) {
        to = std::copy_n(from + (row + offset + t) * columns, columns, to);
      }
    }
    return x;
  };
  return {cut(-sizes.look_back, sizes.look_back), cut(0, sizes.horizon)};
}

}  // namespace attune::forecast
