// UTF-8 text as code points and words.
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

using attune::next_point, attune::not_utf8;

/// A code point as UTF-8.
std::string utf8(char32_t point);

/// Unicode's White_Space, and U+001C to U+001F: the blanks of Python's str.split().
bool is_blank(char32_t point);

/// The words between blanks, as views into `text`.
std::vector<std::string_view> words(std::string_view text);

}  // namespace attune::text
