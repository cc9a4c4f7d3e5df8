// What is printed when somebody may be looking.
#pragma once

#include <string>

#include <unistd.h>

#include <attune/tensor/check.hpp>

namespace attune {

/// Text for standard output: as it is for a file or a pipe, printable but for line breaks and TABs
/// on a terminal.
inline std::string for_output(std::string text) {
  return isatty(STDOUT_FILENO) ? printable(text, "\n\t") : text;
}

/// Whether standard output is a terminal that knows colours and going back in a line: TERM=dumb
/// says that it does not.
bool obeys_escapes();

/// Columns that a drawing on standard output may have: those that were given, those of COLUMNS, or
/// those of the terminal; any number in a file or a pipe. Less than 10 says nothing.
int drawing_width(int given);

}  // namespace attune
