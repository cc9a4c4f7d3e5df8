#include <algorithm>
#include <span>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/platform.hpp>

namespace attune::text {
namespace {

using platform::columns_of;

// Ranges of code points, each as first and one past the last.
// clang-format off
constexpr char32_t formats[] = {
    0x61C, 0x61D, 0x200B, 0x2010, 0x202A, 0x202F, 0x2060, 0x2070, 0xFEFF, 0xFF00};
constexpr char32_t right_to_left[] = {
    0x590, 0x900, 0x200F, 0x2010, 0xFB1D, 0xFE00, 0xFE70, 0xFEFD, 0x10800, 0x11000, 0x1E800, 0x1F000};
// clang-format on

bool in(std::span<const char32_t> ranges, char32_t c) {
  return (std::ranges::upper_bound(ranges, c) - ranges.begin()) % 2 == 1;
}

bool is_flag(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }
bool is_isolate(char32_t c) { return c >= 0x2066 && c <= 0x2069; }
/// A space of any width, except line breaks.
bool is_space(char32_t c) { return c >= 0x20 && c != 0x85 && is_blank(c); }

/// A combining mark with a width > 0, such as a vowel sign. The blocks of Indic scripts have the
/// same layout.
bool is_spacing_mark(char32_t c) {
  const char32_t place = c & 0x7F;
  return c >= 0x900 && c < 0xD80 &&
         (place <= 3 || (place >= 0x3E && place <= 0x4D) || place == 0x57);
}

/// Whether `c` belongs to the grapheme cluster of the code point before it: a mark, a joined emoji,
/// a skin tone, the second half of a flag. `flags` is the number of preceding flag halves.
bool continues(char32_t before, char32_t c, int flags) {
  constexpr char32_t joiner = 0x200D;
  if (in(formats, c)) return c == joiner || c == 0x200C;
  return columns_of(c) == 0 || is_spacing_mark(c) || (c >= 0x1F3FB && c <= 0x1F3FF) ||
         (before == joiner && c >= 0x2000) || (is_flag(c) && flags % 2 == 1);
}

/// Columns of a grapheme cluster. An emoji joined from several has the width of one.
int cluster_width(std::string_view cluster) {
  int width = 0;
  for (const char32_t c : points(cluster)) width += c == 0xFE0F ? 1 : columns_of(c);
  return std::min(width, 2);
}

}  // namespace

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
    if (next_code_point(text, at) == not_utf8) return begin;
  }
  return std::nullopt;
}

std::vector<std::string> code_points(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (next_code_point(text, at) == not_utf8) fail("text", "byte {} is not UTF-8", begin + 1);
    found.emplace_back(text.substr(begin, at - begin));
  }
  return found;
}

std::u32string points(std::string_view text) {
  std::u32string found;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    found += c == not_utf8 ? U'\uFFFD' : c;
  }
  return found;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t word = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is_blank(next_code_point(text, at))) continue;
    if (begin > word) found.push_back(text.substr(word, begin - word));
    word = at;
  }
  if (text.size() > word) found.push_back(text.substr(word));
  return found;
}

// ---- Labels and captions

std::vector<std::string> clusters(std::string_view text) {
  std::vector<std::string> found;
  char32_t before = 0;
  int flags = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_code_point(text, at);
    if (found.empty() || c == not_utf8 || before < 0x20 || !continues(before, c, flags))
      found.emplace_back();
    found.back() += text.substr(begin, at - begin);
    flags = is_flag(c) ? flags + 1 : 0;
    before = c;
  }
  return found;
}

int display_width(std::string_view text) {
  int width = 0;
  for (const std::string& cluster : clusters(text)) width += cluster_width(cluster);
  return width;
}

std::string cut(const std::string& text, Integer width) {
  if (display_width(text) <= width) return text;
  std::string shorter;
  int used = 0;
  for (const std::string& cluster : clusters(text)) {
    used += cluster_width(cluster);
    if (used >= width) break;
    shorter += cluster;
  }
  return shorter + "…";
}

bool runs_right_to_left(std::string_view text) {
  return std::ranges::any_of(points(text), [](char32_t c) { return in(right_to_left, c); });
}

char32_t presentable(char32_t c) {
  if (c < 0x20) return 0x2400 + c;
  if (c == 0x7F) return 0x2421;
  const std::string character = utf8(c);
  const bool forbidden = c == 0xFFFE || c == 0xFFFF || printable(character) != character;
  return forbidden && !is_isolate(c) ? U'\uFFFD' : c;
}

std::string visible(std::string_view label) {
  std::u32string shown = points(label);
  if (shown.empty()) return {};
  for (auto c = shown.begin(); c != shown.end() && is_space(*c); ++c) *c = U'␣';
  for (auto c = shown.rbegin(); c != shown.rend() && is_space(*c); ++c) *c = U'␣';
  for (char32_t& c : shown) c = is_isolate(c) ? U'\uFFFD' : presentable(c);
  if (continues(U' ', shown.front(), 0)) shown = U'◌' + shown;
  std::string text;
  for (const char32_t c : shown) text += utf8(c);
  return display_width(text) == 0 ? "\uFFFD" : text;
}

}  // namespace attune::text
