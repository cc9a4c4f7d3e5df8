// UTF-8 in messages: decoding, and escaping what a terminal would not show as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace attune
