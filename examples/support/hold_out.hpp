// Validation examples out of those to train on.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune {

/// Takes at most `wanted` rows, and at most a tenth, out of `rows` for validation. Throws where
/// that is none; `path` is that of the rows.
template <class Row>
std::vector<Row> hold_out(std::vector<Row>& rows, Index wanted, std::uint64_t seed,
                          const std::string& path) {
  const std::size_t count = std::min(static_cast<std::size_t>(wanted), rows.size() / 10);
  if (count == 0) {
    fail("--train",
         fmt::format("{} has {} examples, too few to hold some out: --valid FILE was expected",
                     path, rows.size()));
  }
  std::vector<Row> held, kept;
  const std::vector<std::uint32_t> order = shuffled(rows.size(), Random(seed, "held-out rows"));
  const std::set<std::uint32_t> chosen(order.begin(),
                                       order.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::uint32_t i = 0; i < rows.size(); ++i)
    (chosen.contains(i) ? held : kept).push_back(std::move(rows[i]));
  rows = std::move(kept);
  return held;
}

}  // namespace attune
