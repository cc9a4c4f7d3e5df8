// Standard output and standard error.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
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

/// Prints progress. Never throws, so that a run goes on when its terminal was closed; in the end,
/// flush_output() throws if standard output could not be written.
template <class... Args>
void say(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stdout, format, fmt::make_format_args(args...));
}

/// Prints to standard error. Never throws.
template <class... Args>
void complain(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stderr, format, fmt::make_format_args(args...));
}

/// What was printed must have been written: a full disk is an error like any other.
inline void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fail("standard output", "it cannot be written");
  }
}

/// Throws unless a file of that name can be written, before the work whose result it is to have,
/// and where it is one of `inputs`, which would be lost. What is there stays as it is.
void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& inputs = {});

/// A JSON object, as text, with one more entry; `value` is JSON, too.
std::string with_field(std::string object, const std::string& name, const std::string& value);

/// Opens standard input, output and error where they are closed, so that no file of the program
/// gets their numbers. To read or to write them fails as before.
void open_standard_streams();

/// What an exception says, in one line that a user understands.
std::string message_of(const std::exception& error);

}  // namespace attune
