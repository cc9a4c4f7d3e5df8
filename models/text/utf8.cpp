#include <cstdint>

#include <fmt/format.h>
#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

/// The code point at `at`, which moves behind it; negative where the text is not UTF-8.
UChar32 next(std::string_view text, std::size_t& at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  UChar32 point;
  U8_NEXT(bytes, at, text.size(), point);
  return point;
}

std::string normalized(const icu::Normalizer2* (*form)(UErrorCode&), std::string_view text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = form(status);
  if (U_SUCCESS(status)) {
    normalizer->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int>(text.size())), sink,
                              nullptr, status);
  }
  if (U_FAILURE(status)) fail("normalisation", u_errorName(status));
  return result;
}

bool is_blank(UChar32 point) { return u_isUWhiteSpace(point) || (point >= 0x1C && point <= 0x1F); }

}  // namespace

std::optional<std::size_t> find_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (next(text, at) < 0) return begin;
  }
  return std::nullopt;
}

std::vector<std::string> code_points(std::string_view text) {
  if (const auto bad = find_bad_byte(text))
    fail("text", fmt::format("byte {} is not UTF-8", *bad + 1));
  std::vector<std::string> points;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    next(text, at);
    points.emplace_back(text.substr(begin, at - begin));
  }
  return points;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  std::size_t word = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is_blank(next(text, at))) continue;
    if (begin > word) found.push_back(text.substr(word, begin - word));
    word = at;
  }
  if (text.size() > word) found.push_back(text.substr(word));
  return found;
}

std::string lower_case(std::string_view text) {
  std::string lower;
  icu::StringByteSink<std::string> sink(&lower);
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), static_cast<int>(text.size())),
                            sink, nullptr, status);
  if (U_FAILURE(status)) fail("lower_case", u_errorName(status));
  return lower;
}

std::string folded_case(std::string_view text) {
  std::string folded;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const UChar32 point = next(text, at);
    char bytes[U8_MAX_LENGTH];
    std::size_t size = 0;
    if (point >= 0) U8_APPEND_UNSAFE(bytes, size, u_foldCase(point, U_FOLD_CASE_DEFAULT));
    folded += point < 0 ? text.substr(begin, at - begin) : std::string_view(bytes, size);
  }
  return folded;
}

std::string decomposed(std::string_view text) {
  return normalized(icu::Normalizer2::getNFDInstance, text);
}

std::string composed(std::string_view text) {
  return normalized(icu::Normalizer2::getNFCInstance, text);
}

}  // namespace attune::text
