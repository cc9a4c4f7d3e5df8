#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {

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
