#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <attune/models/report/display_text.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report::detail {
namespace {

std::vector<UChar32> code_points(std::string_view text) {
  std::vector<UChar32> points;
  const auto characters = icu::UnicodeString::fromUTF8(text);  // bad bytes become U+FFFD
  for (std::int32_t i = 0; i < characters.length(); i = characters.moveIndex32(i, 1)) {
    points.push_back(characters.char32At(i));
  }
  return points;
}

std::string utf8(const std::vector<UChar32>& points) {
  std::string out;
  const auto length = static_cast<std::int32_t>(points.size());
  return icu::UnicodeString::fromUTF32(points.data(), length).toUTF8String(out);
}

bool is_mark(UChar32 c) { return (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0; }

// Columns of a terminal that a code point takes by itself.
int width_of(UChar32 c) {
  const std::uint32_t category = U_GET_GC_MASK(c);
  if ((category & (U_GC_MN_MASK | U_GC_ME_MASK)) != 0) return 0;
  if ((category & U_GC_CF_MASK) != 0 && c != 0xAD) return 0;  // a soft hyphen is drawn
  if (c >= 0x1160 && c <= 0x11FF) return 0;  // the vowel and the end of a Hangul syllable
  const int east_asian = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return east_asian == U_EA_WIDE || east_asian == U_EA_FULLWIDTH ? 2 : 1;
}

// Columns of one user-perceived character: an emoji joined from several takes the room of one.
int cluster_width(std::string_view cluster) {
  int width = 0;
  for (const UChar32 c : code_points(cluster)) width += c == 0xFE0F ? 1 : width_of(c);
  return std::min(width, 2);
}

bool is_isolate(UChar32 c) { return c >= 0x2066 && c <= 0x2069; }

// What stands for a code point on one line, where nothing may move the cursor or reorder its
// neighbours.
UChar32 shown(UChar32 c) {
  if (c < 0x20) return 0x2400 + c;
  if (c == 0x7F) return 0x2421;
  const bool reorders = (c >= 0x202A && c <= 0x202E) || is_isolate(c);
  const bool ends_line = c == 0x2028 || c == 0x2029;
  return reorders || ends_line || (c >= 0x80 && c < 0xA0) ? 0xFFFD : c;
}

}  // namespace

std::vector<std::string> clusters(const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<UText, UText* (*)(UText*)> input(
      utext_openUTF8(nullptr, text.data(), static_cast<std::int64_t>(text.size()), &status),
      &utext_close);
  const std::unique_ptr<UBreakIterator, void (*)(UBreakIterator*)> breaks(
      ubrk_open(UBRK_CHARACTER, "root", nullptr, 0, &status), &ubrk_close);
  ubrk_setUText(breaks.get(), input.get(), &status);
  if (U_FAILURE(status)) {
    throw Error(fmt::format("heatmap: ICU reports {}", u_errorName(status)));
  }
  std::vector<std::string> out;
  std::int32_t start = ubrk_first(breaks.get());
  for (std::int32_t end; (end = ubrk_next(breaks.get())) != UBRK_DONE; start = end) {
    out.push_back(
        text.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(end - start)));
  }
  return out;
}

int display_width(const std::string& text) {
  int width = 0;
  for (const std::string& cluster : clusters(text)) width += cluster_width(cluster);
  return width;
}

std::string visible(const std::string& label) {
  const auto is_space = [](UChar32 c) { return u_charType(c) == U_SPACE_SEPARATOR; };
  std::vector<UChar32> points = code_points(label);
  if (points.empty()) return {};
  for (auto c = points.begin(); c != points.end() && is_space(*c); ++c) *c = 0x2423;
  for (auto c = points.rbegin(); c != points.rend() && is_space(*c); ++c) *c = 0x2423;
  std::transform(points.begin(), points.end(), points.begin(), shown);
  const UChar32 first = points.front();
  if (is_mark(first) || (first >= 0x1160 && first <= 0x11FF)) points.insert(points.begin(), 0x25CC);
  const std::string text = utf8(points);
  return display_width(text) == 0 ? "\uFFFD" : text;
}

std::vector<std::string> visible(const std::vector<std::string>& labels) {
  std::vector<std::string> out;
  for (const std::string& label : labels) out.push_back(visible(label));
  return out;
}

std::string visible_caption(const std::string& caption) {
  std::vector<UChar32> points = code_points(caption);
  std::transform(points.begin(), points.end(), points.begin(),
                 [](UChar32 c) { return is_isolate(c) ? c : shown(c); });
  return utf8(points);
}

bool runs_right_to_left(const std::string& text) {
  const std::vector<UChar32> points = code_points(text);
  return std::any_of(points.begin(), points.end(), [](UChar32 c) {
    const UCharDirection direction = u_charDirection(c);
    return direction == U_RIGHT_TO_LEFT || direction == U_RIGHT_TO_LEFT_ARABIC ||
           direction == U_ARABIC_NUMBER;
  });
}

int widest(const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return width;
}

bool single_characters(const std::vector<std::string>& labels) {
  return std::all_of(labels.begin(), labels.end(),
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

}  // namespace attune::report::detail
