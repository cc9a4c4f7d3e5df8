// What is checked of a model of sentencepiece before the library reads it. Not installed.
#pragma once

#include <string_view>

namespace attune::text::detail {

/// Whether the tables by which a model's normaliser replaces characters stay within themselves, and
/// replace by UTF-8. sentencepiece 0.1.97 follows them without looking, into memory that is not
/// theirs. False also for bytes that are no protocol buffer.
bool has_sound_charsmaps(std::string_view model);

}  // namespace attune::text::detail
