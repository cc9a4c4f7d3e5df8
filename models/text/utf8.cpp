#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {

/// By the table of well-formed byte sequences (The Unicode Standard, table 3-7).
char32_t next_point(std::string_view text, std::size_t& at) {
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

std::string utf8(char32_t point) {
  const auto byte = [&](unsigned lead, int shift) {
    return static_cast<char>(lead | ((point >> shift) & (lead == 0x80 ? 0x3F : 0xFF)));
  };
  if (point < 0x80) return {byte(0, 0)};
  if (point < 0x800) return {byte(0xC0, 6), byte(0x80, 0)};
  if (point < 0x10000) return {byte(0xE0, 12), byte(0x80, 6), byte(0x80, 0)};
  return {byte(0xF0, 18), byte(0x80, 12), byte(0x80, 6), byte(0x80, 0)};
}

bool is_blank(char32_t point) {
  return (point >= 0x9 && point <= 0xD) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F ||
         point == 0x3000;
}

std::optional<std::size_t> find_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (next_point(text, at) == not_utf8) return begin;
  }
  return std::nullopt;
}

std::vector<std::string> code_points(std::string_view text) {
  if (const auto bad = find_bad_byte(text))
    fail("text", fmt::format("byte {} is not UTF-8", *bad + 1));
  std::vector<std::string> points;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next_point(text, at);
    points.emplace_back(text.substr(begin, at - begin));
  }
  return points;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t word = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is_blank(next_point(text, at))) continue;
    if (begin > word) found.push_back(text.substr(word, begin - word));
    word = at;
  }
  if (text.size() > word) found.push_back(text.substr(word));
  return found;
}

}  // namespace attune::text
