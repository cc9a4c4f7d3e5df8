#include "error_counts.hpp"

#include <algorithm>

#include <attune/models/text/tokenizer.hpp>

#include "output.hpp"
#include "page.hpp"

namespace attune {
namespace {

std::vector<std::string> row_of(const std::string& name, const Counts& c) {
  const auto percent = [](double share) { return fmt::format("{:.2f}", 100 * share); };
  const auto& [substitutions, deletions, insertions, expected] = c.edits;
  return {name,
          grouped(c.examples),
          percent(c.share_right()),
          percent(c.edits.rate()),
          grouped(substitutions),
          grouped(deletions),
          grouped(insertions)};
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  edits += other.edits;
  examples += other.examples;
  right += other.right;
  return *this;
}

TableRows rows_by_length(const CountsByLength& counts) {
  constexpr std::size_t most_rows = 20;
  for (std::size_t width = 1;; width *= 2) {
    CountsByLength ranges;  // by the first length of each
    for (const auto& [length, some] : counts) ranges[length / width * width] += some;
    if (ranges.size() > most_rows) continue;
    TableRows rows;
    for (const auto& [first, some] : ranges) {
      const std::string end = width == 1 ? "" : fmt::format(" to {}", first + width - 1);
      rows.push_back(row_of(std::to_string(first) + end, some));
    }
    return rows;
  }
}

Counts total(const CountsByLength& counts) {
  Counts sum;
  for (const auto& [length, some] : counts) sum += some;
  return sum;
}

text::Sentence comparable(text::Sentence expected) {
  std::ranges::replace(expected, text::Vocabulary::unknown, unwritable);
  return expected;
}

void print_table(const CountsByLength& counts, const CountNames& names) {
  TableRows rows = rows_by_length(counts);
  rows.insert(rows.begin(), {"tokens", names.examples, fmt::format("{}, %", names.right),
                             "token error, %", "substitutions", "deletions", "insertions"});
  rows.push_back(row_of("all", total(counts)));
  print_rows(rows);
}

report::LogFields json_of(const Counts& c, const CountNames& names) {
  return {{names.examples, c.examples},
          {"right", c.right},
          {"tokens", c.edits.expected},
          {"token_error", c.edits.rate()},
          {"substitutions", c.edits.substitutions},
          {"deletions", c.edits.deletions},
          {"insertions", c.edits.insertions}};
}

report::LogFields json_of(const CountsByLength& counts, const CountNames& names) {
  report::LogFields fields;
  for (const auto& [length, some] : counts)
    fields.emplace_back(std::to_string(length), json_of(some, names));
  return fields;
}

}  // namespace attune
