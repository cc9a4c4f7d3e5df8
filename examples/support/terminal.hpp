// What is printed when somebody may be looking.
#pragma once

#include <string>

#include <unistd.h>

#include <attune/tensor/printable.hpp>

namespace attune {

/// Text for standard output: as it is for a file or a pipe, printable but for line breaks and TABs
/// on a terminal.
inline std::string for_output(std::string text) {
  return isatty(STDOUT_FILENO) ? printable(text, "\n\t") : text;
}

}  // namespace attune
