#include <algorithm>
#include <span>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

// Ranges of code points: the first of each, and one past its last.
// clang-format off

// Marks, formats, and the vowels and ends of Hangul syllables, of the scripts that are in wide use.
constexpr char32_t no_width[] = {
    0x300, 0x370, 0x483, 0x48A, 0x591, 0x5BE, 0x5BF, 0x5C0, 0x5C1, 0x5C3, 0x5C4, 0x5C6, 0x5C7,
    0x5C8, 0x610, 0x61B, 0x61C, 0x61D, 0x64B, 0x660, 0x670, 0x671, 0x6D6, 0x6DE, 0x6DF, 0x6E5,
    0x6E7, 0x6E9, 0x6EA, 0x6EE, 0x70F, 0x710, 0x711, 0x712, 0x730, 0x74B, 0x7A6, 0x7B1, 0x7EB,
    0x7F4, 0x7FD, 0x7FE, 0x816, 0x81A, 0x81B, 0x824, 0x825, 0x828, 0x829, 0x82E, 0x859, 0x85C,
    0x898, 0x8A0, 0x8CA, 0x903, 0x93A, 0x93B, 0x93C, 0x93D, 0x941, 0x949, 0x94D, 0x94E, 0x951,
    0x958, 0x962, 0x964, 0x981, 0x982, 0x9BC, 0x9BD, 0x9C1, 0x9C5, 0x9CD, 0x9CE, 0x9E2, 0x9E4,
    0x9FE, 0xA03, 0xA3C, 0xA3D, 0xA41, 0xA52, 0xA70, 0xA72, 0xA75, 0xA76, 0xA81, 0xA83, 0xABC,
    0xABD, 0xAC1, 0xAC9, 0xACD, 0xACE, 0xAE2, 0xAE4, 0xAFA, 0xB02, 0xB3C, 0xB3D, 0xB3F, 0xB40,
    0xB41, 0xB45, 0xB4D, 0xB57, 0xB62, 0xB64, 0xB82, 0xB83, 0xBC0, 0xBC1, 0xBCD, 0xBCE, 0xC00,
    0xC01, 0xC04, 0xC05, 0xC3C, 0xC3D, 0xC3E, 0xC41, 0xC46, 0xC57, 0xC62, 0xC64, 0xC81, 0xC82,
    0xCBC, 0xCBD, 0xCBF, 0xCC0, 0xCC6, 0xCC7, 0xCCC, 0xCCE, 0xCE2, 0xCE4, 0xD00, 0xD02, 0xD3B,
    0xD3D, 0xD41, 0xD45, 0xD4D, 0xD4E, 0xD62, 0xD64, 0xD81, 0xD82, 0xDCA, 0xDCB, 0xDD2, 0xDD7,
    0xE31, 0xE32, 0xE34, 0xE3B, 0xE47, 0xE4F, 0xEB1, 0xEB2, 0xEB4, 0xEBD, 0xEC8, 0xECE, 0xF18,
    0xF1A, 0xF35, 0xF36, 0xF37, 0xF38, 0xF39, 0xF3A, 0xF71, 0xF7F, 0xF80, 0xF85, 0xF86, 0xF88,
    0xF8D, 0xFBD, 0xFC6, 0xFC7, 0x102D, 0x1031, 0x1032, 0x1038, 0x1039, 0x103B, 0x103D, 0x103F,
    0x1058, 0x105A, 0x105E, 0x1061, 0x1071, 0x1075, 0x1082, 0x1083, 0x1085, 0x1087, 0x108D, 0x108E,
    0x109D, 0x109E, 0x1160, 0x1200, 0x135D, 0x1360, 0x17B4, 0x17B6, 0x17B7, 0x17BE, 0x17C6, 0x17C7,
    0x17C9, 0x17D4, 0x17DD, 0x17DE, 0x180B, 0x1810, 0x1AB0, 0x1ACF, 0x1DC0, 0x1E00, 0x200B, 0x2010,
    0x202A, 0x202F, 0x2060, 0x2070, 0x20D0, 0x20F1, 0x302A, 0x302E, 0x3099, 0x309B, 0xFB1E, 0xFB1F,
    0xFE00, 0xFE10, 0xFE20, 0xFE30, 0xFEFF, 0xFF00, 0xE0001, 0xE01F0};

// East Asian Width W and F (Unicode 14).
constexpr char32_t wide[] = {
    0x1100, 0x1160, 0x231A, 0x231C, 0x2329, 0x232B, 0x23E9, 0x23ED, 0x23F0, 0x23F1, 0x23F3, 0x23F4,
    0x25FD, 0x25FF, 0x2614, 0x2616, 0x2648, 0x2654, 0x267F, 0x2680, 0x2693, 0x2694, 0x26A1, 0x26A2,
    0x26AA, 0x26AC, 0x26BD, 0x26BF, 0x26C4, 0x26C6, 0x26CE, 0x26CF, 0x26D4, 0x26D5, 0x26EA, 0x26EB,
    0x26F2, 0x26F4, 0x26F5, 0x26F6, 0x26FA, 0x26FB, 0x26FD, 0x26FE, 0x2705, 0x2706, 0x270A, 0x270C,
    0x2728, 0x2729, 0x274C, 0x274D, 0x274E, 0x274F, 0x2753, 0x2756, 0x2757, 0x2758, 0x2795, 0x2798,
    0x27B0, 0x27B1, 0x27BF, 0x27C0, 0x2B1B, 0x2B1D, 0x2B50, 0x2B51, 0x2B55, 0x2B56, 0x2E80, 0x303F,
    0x3041, 0x3248, 0x3250, 0x4DC0, 0x4E00, 0xA4C7, 0xA960, 0xA97D, 0xAC00, 0xD7A4, 0xF900, 0xFADA,
    0xFE10, 0xFE1A, 0xFE30, 0xFE6C, 0xFF01, 0xFF61, 0xFFE0, 0xFFE7, 0x16FE0, 0x1B2FC, 0x1F004,
    0x1F005, 0x1F0CF, 0x1F0D0, 0x1F18E, 0x1F18F, 0x1F191, 0x1F19B, 0x1F200, 0x1F321, 0x1F32D,
    0x1F336, 0x1F337, 0x1F37D, 0x1F37E, 0x1F394, 0x1F3A0, 0x1F3CB, 0x1F3CF, 0x1F3D4, 0x1F3E0,
    0x1F3F1, 0x1F3F4, 0x1F3F5, 0x1F3F8, 0x1F43F, 0x1F440, 0x1F441, 0x1F442, 0x1F4FD, 0x1F4FF,
    0x1F53E, 0x1F54B, 0x1F54F, 0x1F550, 0x1F568, 0x1F57A, 0x1F57B, 0x1F595, 0x1F597, 0x1F5A4,
    0x1F5A5, 0x1F5FB, 0x1F650, 0x1F680, 0x1F6C6, 0x1F6CC, 0x1F6CD, 0x1F6D0, 0x1F6D3, 0x1F6D5,
    0x1F6E0, 0x1F6EB, 0x1F6ED, 0x1F6F4, 0x1F6FD, 0x1F7E0, 0x1F7F1, 0x1F90C, 0x1F93B, 0x1F93C,
    0x1F946, 0x1F947, 0x1FA00, 0x1FA70, 0x1FAF7, 0x20000, 0x3FFFE};

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
/// A space of any width, but no line break.
bool is_space(char32_t c) { return c >= 0x20 && c != 0x85 && is_blank(c); }

/// A vowel sign or another mark that takes columns of its own. Blocks of India's scripts are laid out
/// alike.
bool is_spacing_mark(char32_t c) {
  const char32_t place = c & 0x7F;
  return c >= 0x900 && c < 0xD80 &&
         (place <= 3 || (place >= 0x3E && place <= 0x4D) || place == 0x57);
}

/// Whether `c` continues the character of the code point before it: a mark, a
/// joined or toned emoji, the second half of a flag. `flags`: how many halves there are before.
bool continues(char32_t before, char32_t c, int flags) {
  constexpr char32_t joiner = 0x200D;
  if (in(formats, c)) return c == joiner || c == 0x200C;
  return in(no_width, c) || is_spacing_mark(c) || (c >= 0x1F3FB && c <= 0x1F3FF) ||
         (before == joiner && c >= 0x2000) || (is_flag(c) && flags % 2 == 1);
}

/// Columns of one user-perceived character: an emoji joined from several takes the room of one.
int cluster_width(std::string_view cluster) {
  int width = 0;
  for (const char32_t c : points(cluster))
    width += c == 0xFE0F ? 1 : in(no_width, c) ? 0 : in(wide, c) ? 2 : 1;
  return std::min(width, 2);
}

std::string utf8(const std::u32string& points) {
  std::string text;
  for (const char32_t c : points) text += text::utf8(c);
  return text;
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
    if (next_point(text, at) == not_utf8) return begin;
  }
  return std::nullopt;
}

std::vector<std::string> code_points(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (next_point(text, at) == not_utf8)
      fail("text", fmt::format("byte {} is not UTF-8", begin + 1));
    found.emplace_back(text.substr(begin, at - begin));
  }
  return found;
}

std::u32string points(std::string_view text) {
  std::u32string found;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_point(text, at);
    found += c == not_utf8 ? U'\uFFFD' : c;
  }
  return found;
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

// ---- Labels and captions

std::vector<std::string> clusters(std::string_view text) {
  std::vector<std::string> found;
  char32_t before = 0;
  int flags = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_point(text, at);
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

std::string cut(const std::string& text, int width) {
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
  const char32_t first = shown.front();
  if ((in(no_width, first) && !in(formats, first)) || is_spacing_mark(first)) shown = U'◌' + shown;
  const std::string text = utf8(shown);
  return display_width(text) == 0 ? "\uFFFD" : text;
}

std::string visible_caption(std::string_view caption) {
  std::u32string shown = points(caption);
  std::ranges::transform(shown, shown.begin(), presentable);
  return utf8(shown);
}

}  // namespace attune::text
