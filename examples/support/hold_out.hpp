// Validation examples out of those to train on.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune {

/// Takes at most `wanted` rows, and at most a tenth, out of `rows` for validation. Rows with the
/// same source stay together: a source that was trained on is no test. Throws where that is none;
/// `path` is that of the rows.
template <class Row>
std::vector<Row> hold_out(std::vector<Row>& rows, Index wanted, std::uint64_t seed,
                          const std::string& path) {
  std::map<std::string, std::size_t> rows_of;
  for (const Row& row : rows) ++rows_of[row.source];
  const std::size_t most = std::min(static_cast<std::size_t>(wanted), rows.size() / 10);
  std::size_t left = most;
  std::set<std::string> chosen;
  for (const std::uint32_t i : shuffled(rows.size(), Random(seed, "held-out rows"))) {
    const std::string& source = rows[i].source;
    if (rows_of[source] <= left && chosen.insert(source).second) left -= rows_of[source];
  }
  if (chosen.empty()) {
    fail("--train",
         fmt::format("no example of {} can be held out (at most {} of {}, those with one of its {} "
                     "sources together): --valid FILE was expected",
                     path, most, rows.size(), rows_of.size()));
  }
  std::vector<Row> held, kept;
  for (Row& row : rows) (chosen.contains(row.source) ? held : kept).push_back(std::move(row));
  rows = std::move(kept);
  return held;
}

}  // namespace attune
