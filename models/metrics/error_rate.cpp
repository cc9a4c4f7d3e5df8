#include <algorithm>
#include <limits>

#include <attune/models/metrics/error_rate.hpp>

namespace attune::metrics {

double Edits::rate() const {
  if (expected > 0) return static_cast<double>(count()) / static_cast<double>(expected);
  return count() == 0 ? 0 : std::numeric_limits<double>::infinity();
}

Edits& Edits::operator+=(const Edits& other) {
  substitutions += other.substitutions;
  deletions += other.deletions;
  insertions += other.insertions;
  expected += other.expected;
  return *this;
}

Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected) {
  // row[j]: from all that was written so far to the first j expected tokens.
  std::vector<Edits> row(expected.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j].deletions = static_cast<std::int64_t>(j);
  const auto better = [](const Edits& a, const Edits& b) {
    return a.count() != b.count() ? a.count() < b.count() : a.substitutions > b.substitutions;
  };
  for (const std::int32_t token : written) {
    Edits diagonal = row[0];
    ++row[0].insertions;
    for (std::size_t j = 1; j < row.size(); ++j) {
      Edits kept = diagonal, inserted = row[j], deleted = row[j - 1];
      kept.substitutions += token != expected[j - 1];
      ++inserted.insertions;
      ++deleted.deletions;
      diagonal = row[j];
      row[j] = std::min({kept, inserted, deleted}, better);
    }
  }
  row.back().expected = static_cast<std::int64_t>(expected.size());
  return row.back();
}

}  // namespace attune::metrics
