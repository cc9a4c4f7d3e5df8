#include "support/error_counts.hpp"

#include <algorithm>

#include <attune/models/text/vocabulary.hpp>
#include <attune/nn/parameters.hpp>

#include "support/log.hpp"
#include "support/output.hpp"

namespace attune {
namespace {

void print_row(const std::string& name, const Counts& c) {
  say("{:<14}{:>11}{:>12.2f} %{:>12.2f} %{:>15}{:>11}{:>12}\n", name, c.examples,
      100 * c.share_right(), 100 * c.edits.rate(), c.edits.substitutions, c.edits.deletions,
      c.edits.insertions);
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  edits += other.edits;
  examples += other.examples;
  right += other.right;
  return *this;
}

std::vector<std::pair<std::string, Counts>> rows_by_length(const CountsByLength& counts) {
  constexpr std::size_t most_rows = 20;
  for (std::size_t width = 1;; width *= 2) {
    CountsByLength ranges;  // by the first length of each
    for (const auto& [length, some] : counts) ranges[length / width * width] += some;
    if (ranges.size() > most_rows) continue;
    std::vector<std::pair<std::string, Counts>> rows;
    for (const auto& [first, some] : ranges) {
      rows.emplace_back(
          width == 1 ? fmt::format("{}", first) : fmt::format("{} to {}", first, first + width - 1),
          some);
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

void save_edits(Metadata& metadata, const std::string& name, const metrics::Edits& edits) {
  for (const auto& [part, count] : {std::pair{"substitutions", edits.substitutions},
                                    {"deletions", edits.deletions},
                                    {"insertions", edits.insertions},
                                    {"expected", edits.expected}})
    metadata[name + part] = std::to_string(count);
}

metrics::Edits load_edits(const Metadata& metadata, const std::string& name) {
  const auto count = [&](const char* part) { return nn::load_count(metadata, name + part); };
  return {count("substitutions"), count("deletions"), count("insertions"), count("expected")};
}

void print_table(const CountsByLength& counts, const CountNames& names) {
  say("{:<14}{:>11}{:>14}{:>14}{:>15}{:>11}{:>12}\n", "tokens", names.examples, names.right,
      "token error", "substitutions", "deletions", "insertions");
  for (const auto& [lengths, some] : rows_by_length(counts)) print_row(lengths, some);
  print_row("all", total(counts));
}

std::string json_of(const Counts& c, const CountNames& names) {
  return report::log_line({{names.examples, c.examples},
                           {"right", c.right},
                           {"tokens", c.edits.expected},
                           {"token_error", c.edits.rate()},
                           {"substitutions", c.edits.substitutions},
                           {"deletions", c.edits.deletions},
                           {"insertions", c.edits.insertions}});
}

}  // namespace attune
