// UTF-8 text as code points, words, and the characters that a reader sees.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/check.hpp>

namespace attune::text {

/// The first byte of the first sequence that is not UTF-8, if any.
std::optional<std::size_t> find_bad_byte(std::string_view text);

/// The code points of a text, each as UTF-8. Throws an Error that names the first byte which is not
/// UTF-8.
std::vector<std::string> code_points(std::string_view text);

using attune::next_code_point, attune::not_utf8;

/// The numbers of all code points. Bytes that are not UTF-8 become U+FFFD.
std::u32string points(std::string_view text);

/// A code point as UTF-8.
std::string utf8(char32_t point);

/// Unicode's White_Space, and U+001C to U+001F: the blanks of Python's str.split().
bool is_blank(char32_t point);

/// The words between blanks, as views into `text`.
std::vector<std::string_view> words(std::string_view text);

// ---- Labels and captions in a terminal or a drawing

/// The user-perceived characters of `text`, so that no accent is cut from its letter.
std::vector<std::string> clusters(std::string_view text);

/// Columns of a terminal.
int display_width(std::string_view text);

/// At most `width` columns of `text`, the cut marked with "…".
std::string cut(const std::string& text, int width);

/// Arabic digits count too: next to each other they change places.
bool runs_right_to_left(std::string_view text);

/// The code point, or a visible character where XML and HTML forbid it or it would move the cursor
/// or reorder what stands outside its isolate.
char32_t presentable(char32_t point);

/// A label of which something can be seen: spaces at its ends as ␣, a dotted circle under an accent
/// without a letter. An empty label stays empty.
std::string visible(std::string_view label);

/// A caption has a line of its own, where isolates do no harm: they keep the two sides of "source →
/// target" apart when one of them runs from right to left.
std::string visible_caption(std::string_view caption);

}  // namespace attune::text
