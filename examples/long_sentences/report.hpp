// The results for people: a table, a plot, a page.
#pragma once

#include <filesystem>

#include "results.hpp"

namespace attune::long_sentences {

/// A row a variant and a column a length, aligned, in percent: mean ± standard deviation over the
/// seeds; and the share of its accuracy at 20 that it has at 60.
std::string table(const std::vector<Row>& rows);

/// A line a variant, in which blocks stand for accuracy: an empty one for 0, a full one for all
/// right.
std::string plot(const std::vector<Row>& rows);

/// Writes report.html and a chart as svg for each setting that has results.
void write_report(const std::filesystem::path& directory, const std::vector<Record>& records,
                  const Budget& budget);

}  // namespace attune::long_sentences
