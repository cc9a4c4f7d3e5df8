#pragma once

#include <string>
#include <vector>

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

}  // namespace attune::dates
