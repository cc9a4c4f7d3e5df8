#include "support/terminal.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <sys/ioctl.h>

namespace attune {
namespace {

/// What COLUMNS says; 0 where it says nothing.
int columns_of_environment() {
  const char* const text = std::getenv("COLUMNS");
  int columns = 0;
  if (text) std::from_chars(text, text + std::string_view(text).size(), columns);
  return columns;
}

}  // namespace

bool obeys_escapes() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !(terminal && std::string_view(terminal) == "dumb");
}

int drawing_width(int given) {
  constexpr int least = 10;  // that a drawing takes
  if (given >= least) return given;
  if (const int columns = columns_of_environment(); columns >= least) return columns;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return std::numeric_limits<int>::max();
  return size.ws_col >= least ? size.ws_col : 80;
}

}  // namespace attune
