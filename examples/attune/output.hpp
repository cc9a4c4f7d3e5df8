// Output of a program: text, JSON, warnings, progress, tables, and checks of output files.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common.hpp"

namespace attune {

using examples::duration, examples::message_of, examples::obeys_escapes, examples::Progress,
    examples::require_writable, examples::seconds_since, examples::TimeLimit;

namespace detail {
void print(std::FILE* file, fmt::string_view format, fmt::format_args args) noexcept;
}

/// If silent, `say` and `complain` print nothing.
bool is_silent();
void set_silent(bool silent);

/// Prints formatted text. Escapes unprintable characters except line breaks and TABs, since the
/// text may come from untrusted files. Never throws, so that a run continues when its terminal is
/// closed; flush_output() throws at the end if writing failed.
template <class... Args>
void say(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stdout, format, fmt::make_format_args(args...));
}

/// Prints warnings and errors to standard error, like `say`.
template <class... Args>
void complain(fmt::format_string<Args...> format, const Args&... args) noexcept {
  detail::print(stderr, format, fmt::make_format_args(args...));
}

/// Throws an Error "OPERATION: ..." with a formatted message.
template <class First, class... More>
[[noreturn]] void fail(std::string_view operation, fmt::format_string<First, More...> format,
                       const First& first, const More&... more) {
  fail(operation, fmt::vformat(format, fmt::make_format_args(first, more...)));
}

/// Prints drawings, bytes, or results of for_output() without escaping. Never throws.
void put(std::string_view text) noexcept;

/// Throws if a write to standard output failed (full disk, closed pipe).
void flush_output();

/// Throws for a pipe or a device, which cannot be read twice.
void require_regular(const std::filesystem::path& input);

/// A model's text for standard output: escapes unprintable characters except line breaks and TABs.
/// In a file or a pipe, also keeps the bidirectional marks that some languages need.
std::string for_output(std::string_view text);

/// Width of a drawing on standard output in columns: COLUMNS, or the terminal's width, if at least
/// 10; else 80. Unlimited in a file or a pipe.
int drawing_width();

using TableRows = std::vector<std::vector<std::string>>;
/// Prints a table. All rows must have as many cells as the first. The first `left` columns are
/// left-aligned, the others right-aligned.
void print_rows(const TableRows& rows, std::size_t left = 1);

/// A count with thousands separators: 12,345.
std::string grouped(Index count);

namespace report {

/// Keeps the order of fields. Numbers are written in the shortest form that reads back as the same
/// number; non-finite numbers, which JSON lacks, as null.
using Json = nlohmann::ordered_json;

/// JSON on one line, without '\n'. Invalid UTF-8 becomes U+FFFD.
std::string json_line(const Json& value);

}  // namespace report

}  // namespace attune
