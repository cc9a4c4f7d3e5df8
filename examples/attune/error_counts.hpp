// How often sequences were written right, and their tokens wrong.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/models/metrics.hpp>
#include <attune/models/text/batches.hpp>

#include "log.hpp"
#include "output.hpp"

namespace attune {

/// The counts of some examples.
struct Counts {
  metrics::Edits edits;
  std::int64_t examples = 0, right = 0;  // right: without any edit

  double share_right() const { return static_cast<double>(right) / static_cast<double>(examples); }
  Counts& operator+=(const Counts& other);
};

/// By the number of tokens that were expected.
using CountsByLength = std::map<std::size_t, Counts>;

/// The rows of a table: one for each length or, where these are many, for ranges of equal width,
/// named "7" or "10 to 19". At most 20. Behind the name: examples, percent right, token error in
/// percent, substitutions, deletions and insertions.
TableRows rows_by_length(const CountsByLength& counts);

/// Of all lengths.
Counts total(const CountsByLength& counts);

/// What stands for an expected token that is not in the vocabulary: it cannot be written.
inline constexpr std::int32_t unwritable = -2;
/// An expected sentence, to be compared with what was written.
text::Sentence comparable(text::Sentence expected);

/// What examples are called.
struct CountNames {
  const char *examples, *right;
};
void print_table(const CountsByLength& counts, const CountNames& names);

/// A JSON object: NAMES.examples, right, tokens, token_error, substitutions, deletions, insertions.
report::LogFields json_of(const Counts& counts, const CountNames& names);
/// An object of these, by length.
report::LogFields json_of(const CountsByLength& counts, const CountNames& names);

}  // namespace attune
