// What a program prints: text, warnings, progress; and what standard output is.
#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune {

namespace detail {
void print(std::FILE* file, fmt::string_view format, fmt::format_args args) noexcept;
}

/// Whether `say` and `complain` print nothing.
bool is_silent();
void set_silent(bool silent);

/// Prints text made `printable` but for line breaks and TABs: files of unknown origin may have
/// written it. Never throws, so that a run goes on when its terminal was closed; in the end,
/// flush_output() throws if standard output could not be written.
template <class... Args>
void say(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stdout, format, fmt::make_format_args(args...));
}

/// The same on standard error.
template <class... Args>
void complain(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stderr, format, fmt::make_format_args(args...));
}

/// Prints drawings, bytes, and what for_output() made, as they are. Never throws.
void put(std::string_view text) noexcept;

/// Throws where what was printed could not be written: a full disk is an error like any other.
void flush_output();

/// Throws unless a file of that name can be written, before the work whose result it is to have,
/// and where it is one of `inputs`, which would be lost. What is there stays as it is.
void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs = {});

/// Throws on a pipe or a device, which gives its contents only once.
void require_regular(const std::filesystem::path& input);

/// What an exception says, in one line that a user understands.
std::string message_of(const std::exception& error);

/// A model's words for standard output: printable but for line breaks and TABs, and, in a file or a
/// pipe, for marks of the direction of writing, which belong to texts of some languages.
std::string for_output(std::string_view text);

/// Whether standard output is a terminal that knows colours and going back in a line: TERM=dumb
/// says that it does not.
bool obeys_escapes();

/// Columns of a drawing on standard output: those given, of COLUMNS, or of the terminal, where they
/// are at least 10; any number in a file or a pipe.
int drawing_width(int given);

using TableRows = std::vector<std::vector<std::string>>;
/// Prints rows, each as long as the first: columns as wide as their widest text, the first `left`
/// ones aligned to the left, the others to the right.
void print_rows(const TableRows& rows, std::size_t left = 1);

/// A time after which a run ends, whatever is left of it.
struct TimeLimit {
  double passed = 0;  // seconds
  double most = std::numeric_limits<double>::infinity();
};

/// Progress on the way to a number of steps: one line that is rewritten on a terminal, plain lines
/// elsewhere.
class Progress {
 public:
  /// `done` steps (or what `unit` says) of `total` were made before.
  Progress(long done, long total, std::string unit = "step");
  /// Ends the line that is being rewritten.
  ~Progress();

  /// Shows `text`, the share done and the time left: of the steps, or of the time where that ends
  /// sooner. On a terminal at most ten times a second, and cut to its width; elsewhere once a
  /// minute, and when `line` asks for a lasting line.
  void show(long done, const std::string& text, bool line, const TimeLimit& limit = {});

 private:
  long first_, total_;
  std::string unit_;
  bool open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

/// 12,345: a count, with its digits in groups of three.
std::string grouped(Index count);

double seconds_since(std::chrono::steady_clock::time_point then);

/// "1 min 05 s"
std::string duration(double seconds);

}  // namespace attune
