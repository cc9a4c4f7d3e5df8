#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <attune/models/display_text.hpp>
#include <attune/models/heatmap.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {
namespace detail {
namespace {

struct Range {
  char32_t first, last;
};

// Marks, formats, and the vowels and ends of Hangul syllables, of the scripts that are in wide use.
// clang-format off
constexpr Range kNoWidth[] = {
    {0x300, 0x36F}, {0x483, 0x489}, {0x591, 0x5BD}, {0x5BF, 0x5BF}, {0x5C1, 0x5C2}, {0x5C4, 0x5C5},
    {0x5C7, 0x5C7}, {0x610, 0x61A}, {0x61C, 0x61C}, {0x64B, 0x65F}, {0x670, 0x670}, {0x6D6, 0x6DD},
    {0x6DF, 0x6E4}, {0x6E7, 0x6E8}, {0x6EA, 0x6ED}, {0x70F, 0x70F}, {0x711, 0x711}, {0x730, 0x74A},
    {0x7A6, 0x7B0}, {0x7EB, 0x7F3}, {0x7FD, 0x7FD}, {0x816, 0x819}, {0x81B, 0x823}, {0x825, 0x827},
    {0x829, 0x82D}, {0x859, 0x85B}, {0x898, 0x89F}, {0x8CA, 0x902}, {0x93A, 0x93A}, {0x93C, 0x93C},
    {0x941, 0x948}, {0x94D, 0x94D}, {0x951, 0x957}, {0x962, 0x963}, {0x981, 0x981}, {0x9BC, 0x9BC},
    {0x9C1, 0x9C4}, {0x9CD, 0x9CD}, {0x9E2, 0x9E3}, {0x9FE, 0xA02}, {0xA3C, 0xA3C}, {0xA41, 0xA51},
    {0xA70, 0xA71}, {0xA75, 0xA75}, {0xA81, 0xA82}, {0xABC, 0xABC}, {0xAC1, 0xAC8}, {0xACD, 0xACD},
    {0xAE2, 0xAE3}, {0xAFA, 0xB01}, {0xB3C, 0xB3C}, {0xB3F, 0xB3F}, {0xB41, 0xB44}, {0xB4D, 0xB56},
    {0xB62, 0xB63}, {0xB82, 0xB82}, {0xBC0, 0xBC0}, {0xBCD, 0xBCD}, {0xC00, 0xC00}, {0xC04, 0xC04},
    {0xC3C, 0xC3C}, {0xC3E, 0xC40}, {0xC46, 0xC56}, {0xC62, 0xC63}, {0xC81, 0xC81}, {0xCBC, 0xCBC},
    {0xCBF, 0xCBF}, {0xCC6, 0xCC6}, {0xCCC, 0xCCD}, {0xCE2, 0xCE3}, {0xD00, 0xD01}, {0xD3B, 0xD3C},
    {0xD41, 0xD44}, {0xD4D, 0xD4D}, {0xD62, 0xD63}, {0xD81, 0xD81}, {0xDCA, 0xDCA}, {0xDD2, 0xDD6},
    {0xE31, 0xE31}, {0xE34, 0xE3A}, {0xE47, 0xE4E}, {0xEB1, 0xEB1}, {0xEB4, 0xEBC}, {0xEC8, 0xECD},
    {0xF18, 0xF19}, {0xF35, 0xF35}, {0xF37, 0xF37}, {0xF39, 0xF39}, {0xF71, 0xF7E}, {0xF80, 0xF84},
    {0xF86, 0xF87}, {0xF8D, 0xFBC}, {0xFC6, 0xFC6}, {0x102D, 0x1030}, {0x1032, 0x1037},
    {0x1039, 0x103A}, {0x103D, 0x103E}, {0x1058, 0x1059}, {0x105E, 0x1060}, {0x1071, 0x1074},
    {0x1082, 0x1082}, {0x1085, 0x1086}, {0x108D, 0x108D}, {0x109D, 0x109D}, {0x1160, 0x11FF},
    {0x135D, 0x135F}, {0x17B4, 0x17B5}, {0x17B7, 0x17BD}, {0x17C6, 0x17C6}, {0x17C9, 0x17D3},
    {0x17DD, 0x17DD}, {0x180B, 0x180F}, {0x1AB0, 0x1ACE}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},
    {0x202A, 0x202E}, {0x2060, 0x206F}, {0x20D0, 0x20F0}, {0x302A, 0x302D}, {0x3099, 0x309A},
    {0xFB1E, 0xFB1E}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0001, 0xE01EF}};

// East Asian Width W and F (Unicode 14).
constexpr Range kWide[] = {
    {0x1100, 0x115F}, {0x231A, 0x231B}, {0x2329, 0x232A}, {0x23E9, 0x23EC}, {0x23F0, 0x23F0},
    {0x23F3, 0x23F3}, {0x25FD, 0x25FE}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x267F, 0x267F},
    {0x2693, 0x2693}, {0x26A1, 0x26A1}, {0x26AA, 0x26AB}, {0x26BD, 0x26BE}, {0x26C4, 0x26C5},
    {0x26CE, 0x26CE}, {0x26D4, 0x26D4}, {0x26EA, 0x26EA}, {0x26F2, 0x26F3}, {0x26F5, 0x26F5},
    {0x26FA, 0x26FA}, {0x26FD, 0x26FD}, {0x2705, 0x2705}, {0x270A, 0x270B}, {0x2728, 0x2728},
    {0x274C, 0x274C}, {0x274E, 0x274E}, {0x2753, 0x2755}, {0x2757, 0x2757}, {0x2795, 0x2797},
    {0x27B0, 0x27B0}, {0x27BF, 0x27BF}, {0x2B1B, 0x2B1C}, {0x2B50, 0x2B50}, {0x2B55, 0x2B55},
    {0x2E80, 0x303E}, {0x3041, 0x3247}, {0x3250, 0x4DBF}, {0x4E00, 0xA4C6}, {0xA960, 0xA97C},
    {0xAC00, 0xD7A3}, {0xF900, 0xFAD9}, {0xFE10, 0xFE19}, {0xFE30, 0xFE6B}, {0xFF01, 0xFF60},
    {0xFFE0, 0xFFE6}, {0x16FE0, 0x1B2FB}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF},
    {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335},
    {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3},
    {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440},
    {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567},
    {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F},
    {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2}, {0x1F6D5, 0x1F6DF},
    {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1F93A},
    {0x1F93C, 0x1F945}, {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAF6}, {0x20000, 0x3FFFD}};
// clang-format on

template <class Ranges>
bool in(const Ranges& ranges, char32_t c) {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

constexpr char32_t kReplacement = 0xFFFD;

/// Bytes that are not UTF-8 become U+FFFD.
std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = text::next_point(text, at);
    points.push_back(c == text::not_utf8 ? kReplacement : c);
  }
  return points;
}

std::string utf8(const std::vector<char32_t>& points) {
  std::string out;
  for (const char32_t c : points) out += text::utf8(c);
  return out;
}

bool is_format(char32_t c) {
  return c == 0x61C || (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}
bool is_flag(char32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }

/// Columns of a terminal that a code point takes by itself.
int width_of(char32_t c) { return in(kNoWidth, c) ? 0 : in(kWide, c) ? 2 : 1; }

/// A vowel sign or the like that stands beside its letter. Blocks of India's scripts are laid out
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
  if (is_format(c)) return c == joiner || c == 0x200C;
  return in(kNoWidth, c) || is_spacing_mark(c) || (c >= 0x1F3FB && c <= 0x1F3FF) ||
         (before == joiner && c >= 0x2000) || (is_flag(c) && flags % 2 == 1);
}

/// Columns of one user-perceived character: an emoji joined from several takes the room of one.
int cluster_width(std::string_view cluster) {
  int width = 0;
  for (const char32_t c : code_points(cluster)) width += c == 0xFE0F ? 1 : width_of(c);
  return std::min(width, 2);
}

bool is_isolate(char32_t c) { return c >= 0x2066 && c <= 0x2069; }

/// The code point, or a visible character where XML and HTML forbid it or it would move the cursor
/// or reorder what stands outside its isolate.
char32_t presentable(char32_t c) {
  if (c < 0x20) return 0x2400 + c;
  if (c == 0x7F) return 0x2421;
  const std::string character = text::utf8(c);
  const bool forbidden = c == 0xFFFE || c == 0xFFFF || printable(character) != character;
  return forbidden && !is_isolate(c) ? kReplacement : c;
}

char32_t shown(char32_t c) { return is_isolate(c) ? kReplacement : presentable(c); }

/// A space of any width, but no line break.
bool is_space(char32_t c) { return c >= 0x20 && c != 0x85 && text::is_blank(c); }

}  // namespace

std::vector<std::string> clusters(const std::string& text) {
  std::vector<std::string> out;
  char32_t before = 0;
  int flags = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = text::next_point(text, at);
    if (out.empty() || c == text::not_utf8 || before < 0x20 || !continues(before, c, flags))
      out.emplace_back();
    out.back() += text.substr(begin, at - begin);
    flags = is_flag(c) ? flags + 1 : 0;
    before = c;
  }
  return out;
}

int display_width(const std::string& text) {
  int width = 0;
  for (const std::string& cluster : clusters(text)) width += cluster_width(cluster);
  return width;
}

std::string visible(const std::string& label) {
  std::vector<char32_t> points = code_points(label);
  if (points.empty()) return {};
  for (auto c = points.begin(); c != points.end() && is_space(*c); ++c) *c = 0x2423;
  for (auto c = points.rbegin(); c != points.rend() && is_space(*c); ++c) *c = 0x2423;
  std::ranges::transform(points, points.begin(), shown);
  const char32_t first = points.front();
  const bool mark = (in(kNoWidth, first) && !is_format(first)) || is_spacing_mark(first);
  if (mark) points.insert(points.begin(), 0x25CC);
  const std::string text = utf8(points);
  return display_width(text) == 0 ? "\uFFFD" : text;
}

std::vector<std::string> visible(const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) out.push_back(visible(label));
  return out;
}

std::string visible_caption(const std::string& caption) {
  std::vector<char32_t> points = code_points(caption);
  std::ranges::transform(points, points.begin(), presentable);
  return utf8(points);
}

bool runs_right_to_left(const std::string& text) {
  return std::ranges::any_of(code_points(text), [](char32_t c) {
    return (c >= 0x590 && c < 0x900) || c == 0x200F || (c >= 0xFB1D && c <= 0xFDFF) ||
           (c >= 0xFE70 && c <= 0xFEFC) || (c >= 0x10800 && c < 0x11000) ||
           (c >= 0x1E800 && c < 0x1F000);
  });
}

int widest(const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return width;
}

bool single_characters(const std::vector<std::string>& labels) {
  return std::ranges::all_of(labels,
                             [](const std::string& label) { return clusters(label).size() <= 1; });
}

std::string cut(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  std::string out;
  int used = 0;
  for (const std::string& cluster : clusters(text)) {
    used += cluster_width(cluster);
    if (used > width - 1) break;
    out += cluster;
  }
  return out + "…";
}

}  // namespace detail

std::string escape(std::string_view text) {
  constexpr std::pair<char32_t, std::string_view> kForms[] = {
      {'\t', "\t"},  {'\n', "\n"},  {'\r', "\r"},    {'&', "&amp;"},
      {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char32_t c : detail::code_points(text)) {
    const auto form = std::ranges::find(kForms, c, [](const auto& known) { return known.first; });
    out +=
        form == std::end(kForms) ? text::utf8(detail::presentable(c)) : std::string(form->second);
  }
  return out;
}

}  // namespace attune::report
