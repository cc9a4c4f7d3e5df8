#include "output.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/platform.hpp>

namespace attune {
namespace {

bool silent = false;

void write(std::FILE* file, std::string_view text) noexcept {
  if (!silent) std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace

bool is_silent() { return silent; }

void set_silent(bool value) { silent = value; }

void detail::print(std::FILE* file, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    write(file, printable(fmt::vformat(format, args), "\n\t"));
  } catch (...) {  // out of memory
  }
}

void put(std::string_view text) noexcept { write(stdout, text); }

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) fail("standard output", "cannot be written");
}

void require_regular(const std::filesystem::path& input) {
  std::error_code none;  // a missing file or a directory is reported when it is read
  const std::filesystem::file_status status = std::filesystem::status(input, none);
  if (exists(status) && !is_regular_file(status) && !is_directory(status))
    fail(input.string(), "is read more than once, expected a regular file");
}

std::string for_output(std::string_view text) {
  constexpr const char* directions =
      "\n\t\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029";
  return printable(text, platform::is_terminal(platform::Stream::output) ? "\n\t" : directions);
}

int drawing_width() {
  constexpr int least = 10;
  const std::string_view variable = std::getenv("COLUMNS") ? std::getenv("COLUMNS") : "";
  int columns = 0;
  std::from_chars(variable.data(), variable.data() + variable.size(), columns);
  if (columns >= least) return columns;
  if (!platform::is_terminal(platform::Stream::output)) return std::numeric_limits<int>::max();
  const int of_terminal = platform::terminal_columns();
  return of_terminal >= least ? of_terminal : 80;
}

void print_rows(const TableRows& rows, std::size_t left) {
  std::vector<int> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], text::display_width(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - text::display_width(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i < left ? row[i] + padding : padding + row[i]);
    }
    say("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

std::string grouped(Index count) {
  std::string digits = std::to_string(count);
  for (Index at = std::ssize(digits) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string report::json_line(const Json& value) {
  return printable(
      value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
}

}  // namespace attune
