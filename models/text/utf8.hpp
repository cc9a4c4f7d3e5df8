// UTF-8 text as code points and words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Where a text stops being UTF-8: the first byte of the first bad sequence.
std::optional<std::size_t> find_bad_byte(std::string_view text);

/// The code points of a text, each as UTF-8. Throws an Error that names the first byte which is not
/// UTF-8.
std::vector<std::string> code_points(std::string_view text);

/// What stands between blanks, as views into `text`. A blank is what Unicode calls White_Space, or
/// one of U+001C to U+001F: the same as in Python's str.split().
std::vector<std::string_view> words(std::string_view text);

/// In lower case by Unicode's rules, those of no language in particular.
std::string lower_case(std::string_view text);

/// Texts that differ in case alone become the same. Each code point stays one: "ß" is not "ss".
std::string folded_case(std::string_view text);

/// Canonically decomposed (NFD) and composed (NFC): in the former an accent, or a letter of a
/// Hangul syllable, is a code point of its own.
std::string decomposed(std::string_view text);
std::string composed(std::string_view text);

}  // namespace attune::text
