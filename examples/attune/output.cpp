#include "output.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include <sys/ioctl.h>
#include <unistd.h>

#include <attune/models/text/utf8.hpp>

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;

bool silent = false;

/// 0 where there is no terminal, or it does not say.
int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void write(std::FILE* file, std::string_view text) noexcept {
  if (!silent) std::fwrite(text.data(), 1, text.size(), file);
}

}  // namespace

bool is_silent() { return silent; }

void set_silent(bool value) { silent = value; }

void detail::print(std::FILE* file, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    // As one write, where the file has no buffer.
    write(file, printable(fmt::vformat(format, args), "\n\t"));
  } catch (...) {  // no memory: there is nothing left to do
  }
}

void put(std::string_view text) noexcept { write(stdout, text); }

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    fail("standard output", "it cannot be written");
}

void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs) {
  int error = std::filesystem::is_directory(path) ? EISDIR : 0;
  // A file is replaced by a new one beside it; a pipe or a device is written itself.
  const bool itself = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (error == 0 && access((itself ? path : directory).c_str(), W_OK) != 0) error = errno;
  if (error != 0) fail(path.string(), fmt::format("cannot be written: {}", std::strerror(error)));
  std::error_code none;  // what is not there is read later, with an error of its own
  for (const auto& input : inputs) {
    // A pipe or a device may be both.
    if (!itself && std::filesystem::equivalent(path, input, none))
      fail(path.string(), "it is read, too: another file to write was expected");
  }
}

void require_regular(const std::filesystem::path& input) {
  std::error_code none;  // what is not there, or a directory, is an error of reading it
  const std::filesystem::file_status status = std::filesystem::status(input, none);
  if (exists(status) && !is_regular_file(status) && !is_directory(status))
    fail(input.string(), "it is read more than once, expected a regular file");
}

std::string message_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return fmt::format("{}: {}", file->path1().string(), file->code().message());
  // A container throws a length_error where no memory could be large enough.
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const std::length_error*>(&error))
    return "there is not enough memory";
  return error.what();
}

std::string for_output(std::string_view text) {
  constexpr const char* directions =
      "\n\t\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029";
  return printable(text, isatty(STDOUT_FILENO) ? "\n\t" : directions);
}

bool obeys_escapes() {
  const char* const terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && !(terminal && std::string_view(terminal) == "dumb");
}

int drawing_width(int given) {
  constexpr int least = 10;  // that a drawing takes
  if (given >= least) return given;
  const std::string_view variable = std::getenv("COLUMNS") ? std::getenv("COLUMNS") : "";
  int columns = 0;
  std::from_chars(variable.data(), variable.data() + variable.size(), columns);
  if (columns >= least) return columns;
  if (!isatty(STDOUT_FILENO)) return std::numeric_limits<int>::max();
  return terminal_columns() >= least ? terminal_columns() : 80;
}

void print_rows(const TableRows& rows, std::size_t left) {
  std::vector<int> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], text::display_width(row[i]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int blanks = widths[i] - text::display_width(row[i]);
      const std::string padding(static_cast<std::size_t>(blanks), ' ');
      line += (i > 0 ? "  " : "") + (i < left ? row[i] + padding : padding + row[i]);
    }
    say("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

Progress::Progress(long done, long total, std::string unit)
    : first_(done),
      total_(total),
      unit_(std::move(unit)),
      start_(Clock::now()),
      shown_(obeys_escapes() ? Clock::time_point() : start_) {}

Progress::~Progress() {
  if (open_) say("\n");
}

void Progress::show(long done, const std::string& text, bool line, const TimeLimit& limit) {
  const bool rewrites = obeys_escapes();
  const auto pause = rewrites ? std::chrono::milliseconds(100) : std::chrono::minutes(1);
  if (!line && Clock::now() - shown_ < pause) return;
  shown_ = Clock::now();
  const auto here = static_cast<double>(std::max(1L, done - first_));
  const double steps_left = seconds_since(start_) / here * static_cast<double>(total_ - done);
  const double left = std::clamp(steps_left, 0.0, std::max(0.0, limit.most - limit.passed));
  const double steps_done = static_cast<double>(done) / static_cast<double>(total_);
  const double share = std::min(1.0, std::max(steps_done, limit.passed / limit.most));
  const std::string percent = fmt::format("{:3.0f} %", 100 * share),
                    count = fmt::format("  {} {}/{}", unit_, done, total_),
                    end = fmt::format("  {} left", duration(left));
  open_ = rewrites && !line;
  // What matters most stands first in a line that the terminal may be too narrow for. "\r" goes
  // back to the start of the last line only.
  const int columns = terminal_columns();
  std::string shown =
      printable(open_ ? percent + end + count + "  " + text : percent + count + "  " + text + end);
  if (open_ && columns > 1) shown = text::cut(shown, columns - 1);
  put(fmt::format("{}{}{}", rewrites ? "\r\x1b[K" : "", shown, open_ ? "" : "\n"));
  std::fflush(stdout);
}

std::string grouped(Index count) {
  std::string digits = std::to_string(count);
  for (Index at = std::ssize(digits) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace attune
