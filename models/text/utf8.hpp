// UTF-8 text: code points, words, grapheme clusters, display width.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>
#include <attune/tensor/utf8.hpp>

namespace attune::text {

/// The byte offset of the first invalid UTF-8 sequence, or nullopt.
std::optional<std::size_t> find_bad_byte(std::string_view text);

/// Splits a text into code points (UTF-8). Throws an Error with the offset of the first invalid
/// byte.
std::vector<std::string> code_points(std::string_view text);

using attune::next_code_point, attune::not_utf8;

/// Decodes a text to code points. Invalid bytes become U+FFFD.
std::u32string points(std::string_view text);

/// Encodes a code point as UTF-8.
std::string utf8(char32_t point);

/// True for Unicode White_Space and U+001C to U+001F, as in Python's str.split().
bool is_blank(char32_t point);

/// Splits `text` at blanks. The words are views into `text`.
std::vector<std::string_view> words(std::string_view text);
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> words(Temporary&& text) = delete;

// ---- Labels and captions in a terminal or a drawing

/// Splits `text` into grapheme clusters (user-perceived characters), such as a letter with accents.
std::vector<std::string> clusters(std::string_view text);

/// Width of `text` in terminal columns.
int display_width(std::string_view text);

/// Truncates `text` to at most `width` terminal columns; a truncated text ends with "…".
std::string cut(const std::string& text, Integer width);

/// Whether `text` contains right-to-left characters, including Arabic digits, as these are
/// reordered.
bool runs_right_to_left(std::string_view text);

/// Replaces a code point by a visible one if XML and HTML forbid it, or if it moves the cursor or
/// reorders text outside of its bidirectional isolate; returns others unchanged.
char32_t presentable(char32_t point);

/// Makes a label visible: replaces leading and trailing spaces by ␣, and adds a dotted circle to a
/// character that would join the one before it. An empty label stays empty.
std::string visible(std::string_view label);

}  // namespace attune::text
