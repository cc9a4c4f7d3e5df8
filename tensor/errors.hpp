// Errors, and escaping of text in messages.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

inline constexpr char32_t not_utf8 = 0xFFFFFFFF;

/// Decodes the code point at byte `at` and advances `at` past it. Returns not_utf8 for invalid
/// bytes: a truncated sequence counts as one, any other invalid byte as one each.
char32_t next_code_point(std::string_view text, std::size_t& at);

/// Escapes characters that could change the display of a terminal or log: `\n`, `\x1b`, `\u202e`.
/// These are control characters (C0, DEL, C1) except those in `kept`, line and paragraph
/// separators, bidirectional controls (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069),
/// and bytes that are not UTF-8. Everything else is unchanged, backslashes too: the function is
/// idempotent, and JSON remains valid JSON.
std::string printable(std::string_view text, std::string_view kept = {});

/// The text for a message: printable, in quotes, cut to 80 bytes with "…" at the end if longer.
std::string in_quotes(std::string_view text);

/// The base of all exceptions of the library. Its message is one line: "operation: what is wrong".
class Error : public std::runtime_error {
 public:
  /// Escapes the message with `printable`, as it may quote a file from an untrusted source.
  explicit Error(std::string_view message);
};

/// Allocation failed; the program may continue. The message is for example "matmul: there is no
/// memory for (100000, 100000) f32, 40 GB".
class OutOfMemory : public Error {
 public:
  /// `what` describes what was to be allocated, "(2, 3) f32", or is empty. `operation` may be
  /// empty: a caller can add it with throw_as.
  OutOfMemory(std::string_view operation, std::string what, std::size_t bytes);
  /// Rethrows inside a catch block, with this operation if the error does not name one yet.
  [[noreturn]] void throw_as(std::string_view operation) const;

 private:
  std::string what_;
  std::size_t bytes_;
  bool named_;
};

/// Throws Error("operation: message"). While a layer with a path is running in this thread, the
/// message ends with ", in PATH", for example ", in encoder.forward".
[[noreturn]] void fail(std::string_view operation, std::string_view message);

}  // namespace attune
