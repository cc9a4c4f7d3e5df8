// What a program prints: text, warnings, progress; and what standard output is.
#pragma once

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "common.hpp"

namespace attune {

using examples::duration, examples::message_of, examples::obeys_escapes, examples::Progress,
    examples::seconds_since, examples::TimeLimit;

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

/// A model's words for standard output: printable but for line breaks and TABs, and, in a file or a
/// pipe, for marks of the direction of writing, which belong to texts of some languages.
std::string for_output(std::string_view text);

/// Columns of a drawing on standard output: of COLUMNS or of the terminal, where they are at least
/// 10; any number in a file or a pipe.
int drawing_width();

using TableRows = std::vector<std::vector<std::string>>;
/// Prints rows, each as long as the first: columns as wide as their widest text, the first `left`
/// ones aligned to the left, the others to the right.
void print_rows(const TableRows& rows, std::size_t left = 1);

/// 12,345: a count, with its digits in groups of three.
std::string grouped(Index count);

}  // namespace attune
