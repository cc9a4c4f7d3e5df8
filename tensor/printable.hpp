// Text of unknown origin, shown.
#pragma once

#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

/// The text with escapes such as `\n`, `\x1b` and `\u202e` for what would do something to a
/// terminal, a log or the line it stands in: control characters (C0, DEL, C1) but for those in
/// `kept`, line and paragraph separators, what changes the direction of writing (U+202A to U+202E,
/// U+2066 to U+2069), and bytes that are not UTF-8. Everything else stays as it is, backslashes
/// too: what was printable once is not changed again.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace attune
