#include <cstdint>

#include <fmt/format.h>

#include <attune/tensor/utf8.hpp>

namespace attune {
namespace {

bool is_shown(char32_t c) {
  return !(c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069));
}

std::string escaped(char32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  const auto number = static_cast<std::uint32_t>(c);
  return c < 0x20 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
}

}  // namespace

/// By the table of well-formed byte sequences (The Unicode Standard, table 3-7).
char32_t next_code_point(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const int following = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4) return not_utf8;
  // No longer form than needed, no surrogates, nothing beyond U+10FFFF.
  unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  char32_t point = first & (0x3F >> following);
  for (int i = 0; i < following; ++i) {
    const unsigned byte = at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    if (byte < low || byte > high) return not_utf8;
    point = point << 6 | (byte & 0x3F);
    ++at;
    low = 0x80, high = 0xBF;
  }
  return point;
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    const std::string_view bytes = text.substr(begin, at - begin);
    if (c == not_utf8) {
      for (const unsigned char byte : bytes) out += fmt::format("\\x{:02x}", byte);
    } else {
      out += is_shown(c) || kept.find(bytes) != kept.npos ? std::string(bytes) : escaped(c);
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string shown = printable(text.substr(0, longest + 4));  // no character has more bytes than 4
  if (shown.size() > longest) {
    std::size_t end = longest;
    while ((shown[end] & 0xC0) == 0x80) --end;  // within a character
    shown = shown.substr(0, end) + "…";
  }
  return "'" + shown + "'";
}

}  // namespace attune
