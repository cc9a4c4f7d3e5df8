// Pairs of sources and targets, as files have them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/text/corpus.hpp>

namespace attune::transduce {

/// One line of a file. Neither side is empty.
struct Row {
  std::string source, target;
  std::int64_t line = 0;  // from 1
};

/// Reads lines of source TAB target, or of target TAB source; empty lines are skipped. Throws an
/// Error "FILE:LINE: ..." for another number of columns, for a side with nothing but blanks, and
/// for what is no UTF-8, and one for a file without pairs.
std::vector<Row> read_pairs(const std::filesystem::path& path, text::Columns columns);

}  // namespace attune::transduce
