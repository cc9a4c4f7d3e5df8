#include "date_writer.hpp"

#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <unicode/casemap.h>
#include <unicode/dtfmtsym.h>
#include <unicode/edits.h>
#include <unicode/fpositer.h>
#include <unicode/numsys.h>
#include <unicode/timezone.h>

namespace attune::dates {
namespace {

constexpr std::array kStyles = {icu::DateFormat::kShort, icu::DateFormat::kMedium,
                                icu::DateFormat::kLong, icu::DateFormat::kFull};

// y is the calendar year. Y would be the year that the week belongs to: wrong around New Year.
constexpr std::array kPatterns = {u"d MMM y",   u"d MMMM y",  u"dd MMM y", u"d MMM, y",
                                  u"d MMMM, y", u"dd, MMM y", u"d MM yy",  u"MMMM d y",
                                  u"MMMM d, y", u"dd.MM.yy"};

static_assert(kStyles.size() + kPatterns.size() == kPatternCount);

// The last three stand in none of ICU 72's date styles; they are here for other versions.
constexpr std::u16string_view kCommas =
    u","
    u"\u060C"   // Arabic
    u"\u104A"   // Myanmar: "little section", which is that script's comma
    u"\u1363"   // Ethiopic
    u"\u2E41"   // reversed comma, of Adlam
    u"\u07F8"   // N'Ko
    u"\u3001"   // ideographic
    u"\uFF0C";  // fullwidth

/// Replaces the text, and moves the fields to where `place` says that each code unit went.
template <typename Place>
Writing moved(const Writing& from, icu::UnicodeString text, Place place) {
  Writing to{std::move(text), from.fields};
  for (Span& field : to.fields) field.begin = place(field.begin), field.end = place(field.end);
  return to;
}

Writing without_commas(const Writing& writing) {
  icu::UnicodeString kept;
  std::vector<int> places;
  for (int32_t i = 0; i < writing.text.length(); ++i) {
    places.push_back(kept.length());
    if (kCommas.find(writing.text[i]) == kCommas.npos) kept.append(writing.text[i]);
  }
  places.push_back(kept.length());
  return moved(writing, kept, [&](int i) { return places[static_cast<std::size_t>(i)]; });
}

Writing in_letters(const Writing& writing, Letters letters, const icu::Locale& locale) {
  if (letters == Letters::kAsWritten) return writing;
  const icu::UnicodeString& from = writing.text;
  const int32_t capacity = 3 * from.length();  // no character becomes more than three
  icu::UnicodeString to;
  icu::Edits edits;
  UErrorCode status = U_ZERO_ERROR;
  const auto change = letters == Letters::kUpper ? icu::CaseMap::toUpper : icu::CaseMap::toLower;
  to.releaseBuffer(change(locale.getBaseName(), /*options=*/0, from.getBuffer(), from.length(),
                          to.getBuffer(capacity), capacity, &edits, status));
  icu::Edits::Iterator changes = edits.getFineIterator();
  const Writing changed =
      moved(writing, to, [&](int i) { return changes.destinationIndexFromSourceIndex(i, status); });
  check_icu(status, "letters");
  return changed;
}

/// 'y', 'm' or 'd' of a field of ICU's, or 0 for another.
char field_name(int32_t field) {
  switch (field) {
    case UDAT_YEAR_FIELD:
      return 'y';
    case UDAT_MONTH_FIELD:
    case UDAT_STANDALONE_MONTH_FIELD:
      return 'm';
    case UDAT_DATE_FIELD:
      return 'd';
    default:
      return 0;
  }
}

std::unique_ptr<icu::SimpleDateFormat> make_format(icu::DateFormat::EStyle style,
                                                   const icu::Locale& locale) {
  std::unique_ptr<icu::DateFormat> format(icu::DateFormat::createDateInstance(style, locale));
  auto* simple = dynamic_cast<icu::SimpleDateFormat*>(format.get());
  if (simple == nullptr) {
    throw std::runtime_error(fmt::format("ICU: no date format for {}", locale.getName()));
  }
  simple->setTimeZone(*icu::TimeZone::getGMT());
  format.release();
  return std::unique_ptr<icu::SimpleDateFormat>(simple);
}

icu::UnicodeString style_pattern(icu::DateFormat::EStyle style, const icu::Locale& locale) {
  icu::UnicodeString pattern;
  make_format(style, locale)->toPattern(pattern);
  if (pattern.indexOf(u'Y') >= 0) {
    throw std::runtime_error(fmt::format("ICU: a date style of {} has the week year: '{}'",
                                         locale.getName(), utf8(pattern)));
  }
  return pattern;
}

}  // namespace

void check_icu(UErrorCode status, const char* what) {
  if (U_FAILURE(status)) {
    throw std::runtime_error(fmt::format("ICU: {}: {}", what, u_errorName(status)));
  }
}

std::string utf8(const icu::UnicodeString& text) {
  std::string result;
  return text.toUTF8String(result);
}

Row to_row(const Writing& writing, std::string target) {
  Row row{utf8(writing.text), std::move(target), writing.fields};
  for (Span& span : row.spans) {
    span.begin = writing.text.countChar32(0, span.begin);
    span.end = writing.text.countChar32(0, span.end);
  }
  return row;
}

DateWriter::DateWriter(const std::string& name) : locale_(name.c_str()) {
  UErrorCode status = U_ZERO_ERROR;
  locale_.setKeywordValue("calendar", "gregorian", status);
  const std::unique_ptr<icu::NumberingSystem> digits(
      icu::NumberingSystem::createInstance(locale_, status));
  icu::Locale latin = locale_;
  latin.setKeywordValue("numbers", "latn", status);
  check_icu(status, name.c_str());

  formats_.push_back(make_format(icu::DateFormat::kFull, locale_));
  if (std::string_view(digits->getName()) != "latn") {
    formats_.push_back(make_format(icu::DateFormat::kFull, latin));
  }
  for (auto style : kStyles) patterns_.push_back(style_pattern(style, locale_));
  for (const char16_t* pattern : kPatterns) patterns_.emplace_back(pattern);
}

bool DateWriter::has_month_names() const {
  int32_t count = 0;
  const icu::UnicodeString* months = formats_[0]->getDateFormatSymbols()->getMonths(count);
  return count > 0 && months[0] != icu::UnicodeString(u"M01");
}

Writing DateWriter::write(int day, std::size_t digits, std::size_t pattern) const {
  constexpr UDate kMillisecondsPerDay = 86'400'000;
  Writing writing;
  icu::FieldPositionIterator fields;
  UErrorCode status = U_ZERO_ERROR;
  formats_[digits]->applyPattern(patterns_[pattern]);
  formats_[digits]->format(day * kMillisecondsPerDay, writing.text, &fields, status);
  check_icu(status, "a date");
  for (icu::FieldPosition field; fields.next(field);) {
    if (const char name = field_name(field.getField()))
      writing.fields.push_back({name, field.getBeginIndex(), field.getEndIndex()});
  }
  return writing;
}

Writing DateWriter::vary(const Writing& writing, Variant variant) const {
  const Writing lettered = in_letters(writing, variant.letters, locale_);
  return variant.commas ? lettered : without_commas(lettered);
}

}  // namespace attune::dates
