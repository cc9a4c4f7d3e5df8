// What is checked of a model of sentencepiece before the library reads it. Not installed.
#pragma once

#include <string_view>

namespace attune::text::detail {

/// Whether the offsets in the tables by which a model's normaliser replaces characters are within
/// the tables, and the replacements are UTF-8. sentencepiece 0.1.97 does not check the offsets, and
/// would read outside of the tables. False also for bytes that are no protocol buffer.
bool has_sound_charsmaps(std::string_view model);

}  // namespace attune::text::detail
