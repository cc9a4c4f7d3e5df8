#pragma once

#include <string>
#include <vector>

#include <attune/models/text/corpus.hpp>

namespace attune::dates {

/// Where a field of the date stands in the source, in code points: [begin, end).
struct Span {
  char field;  ///< 'y', 'm' or 'd'
  int begin, end;
};

/// One line of an example file.
struct Row {
  std::string source, target;  ///< UTF-8, neither is empty
  std::vector<Span> spans;     ///< empty where the line has none
  std::size_t line = 0;        ///< of the file, from 1
};

/// Reads a file of lines
///
///     source TAB target [TAB spans [TAB anything]]
///
/// or with the target first, with spans such as "y:7-11 m:3-6 d:0-2", in any order, each field at
/// most once; the column may be empty. Lines end in LF or CRLF, the last one also with the file;
/// empty lines are skipped, and so is a byte-order mark at the start.
///
/// Throws Error with one line, "FILE:LINE: what is wrong, what was expected": text
/// that is not UTF-8, a missing or empty column, a malformed span or one beyond its source, a
/// source of more than 10,000 code points, a file that cannot be read or has no examples.
std::vector<Row> read_tsv(const std::string& path,
                          text::Columns columns = text::Columns::source_first);

}  // namespace attune::dates
