// Generates random dates in the formats of ICU's locales, with their ISO 8601 form: lines SOURCE
// TAB TARGET.
//
//     build/examples/dates_tsv LOCALES COUNT [held-out] [SEED] > dates.tsv
//
// LOCALES is "en", "en,de_AT,zh_Hant" or "all": all locales with month names, without duplicates.
// The dates are the 36525 days from 1970 to 2069, so that two digits determine the year. Every 16th
// day is held out: it occurs only with the argument `held-out`. Each line is the result of uniform
// random choices: day; locale (with the Gregorian calendar); native or Latin digits; style (SHORT,
// MEDIUM, LONG, FULL, or one of ten patterns); unchanged, upper or lower case; with or without
// commas. The output depends only on the arguments and the installed ICU.
#include <array>
#include <charconv>
#include <chrono>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include <unicode/dtfmtsym.h>
#include <unicode/locid.h>
#include <unicode/numsys.h>
#include <unicode/smpdtfmt.h>
#include <unicode/timezone.h>
#include <unicode/uenum.h>
#include <unicode/uloc.h>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/random.hpp>

namespace attune {
namespace {

constexpr Index days = 36525;  // 1970-01-01 .. 2069-12-31
constexpr std::array styles = {icu::DateFormat::kShort, icu::DateFormat::kMedium,
                               icu::DateFormat::kLong, icu::DateFormat::kFull};
// y is the calendar year; Y would be the week-based year, which differs around New Year.
constexpr std::array patterns = {u"d MMM y",   u"d MMMM y", u"dd MMM y", u"d MMM, y",  u"d MMMM, y",
                                 u"dd, MMM y", u"d MM yy",  u"MMMM d y", u"MMMM d, y", u"dd.MM.yy"};
// Latin, Arabic, Burmese, Ethiopic, Adlam, N'Ko, ideographic and fullwidth commas.
constexpr std::u16string_view commas = u",\u060C\u104A\u1363\u2E41\u07F8\u3001\uFF0C";

void check_icu(UErrorCode status, const std::string& what) {
  if (U_FAILURE(status)) fail("ICU", what + ": " + u_errorName(status));
}

std::string utf8(const icu::UnicodeString& text) {
  std::string result;
  return text.toUTF8String(result);
}

/// Formats dates in one locale.
class DateWriter {
 public:
  explicit DateWriter(const std::string& name) : locale_(name.c_str()) {
    UErrorCode status = U_ZERO_ERROR;
    locale_.setKeywordValue("calendar", "gregorian", status);
    const std::unique_ptr<icu::NumberingSystem> digits(
        icu::NumberingSystem::createInstance(locale_, status));
    icu::Locale latin = locale_;
    latin.setKeywordValue("numbers", "latn", status);
    check_icu(status, name);
    formats_.push_back(make(icu::DateFormat::kFull, locale_));
    if (std::string_view(digits->getName()) != "latn")
      formats_.push_back(make(icu::DateFormat::kFull, latin));
    for (const auto style : styles) {
      make(style, locale_)->toPattern(patterns_.emplace_back());
      if (patterns_.back().indexOf(u'Y') >= 0)
        fail("ICU", "the date format of " + name + " has a week-based year");
    }
    for (const char16_t* pattern : patterns) patterns_.emplace_back(pattern);
  }

  /// False if ICU falls back to its root locale, whose January is "M01".
  bool has_month_names() const {
    int32_t count = 0;
    const icu::UnicodeString* months = formats_[0]->getDateFormatSymbols()->getMonths(count);
    return count > 0 && months[0] != icu::UnicodeString(u"M01");
  }

  /// Sample of dates in all patterns, to compare locales. It has every month, weekday and digit.
  std::string sample() const {
    std::string dates;
    for (Index day = 0; day < days; day += 970)
      for (std::size_t pattern = 0; pattern < patterns_.size(); ++pattern)
        dates += utf8(write(day, 0, pattern)) + "\n";
    return dates;
  }

  std::string draw(Index day, Random& random) const {
    const Index digits = random.below(std::ssize(formats_));
    icu::UnicodeString text = write(day, digits, random.below(std::ssize(patterns_)));
    const Index letters = random.below(3);  // as written, upper, lower
    if (letters == 1) text.toUpper(locale_);
    if (letters == 2) text.toLower(locale_);
    if (random.below(2) == 0) return utf8(text);
    icu::UnicodeString kept;
    for (int32_t i = 0; i < text.length(); ++i)
      if (commas.find(text[i]) == commas.npos) kept.append(text[i]);
    return utf8(kept);
  }

 private:
  using Format = std::unique_ptr<icu::SimpleDateFormat>;

  static Format make(icu::DateFormat::EStyle style, const icu::Locale& locale) {
    std::unique_ptr<icu::DateFormat> format(icu::DateFormat::createDateInstance(style, locale));
    auto* simple = dynamic_cast<icu::SimpleDateFormat*>(format.get());
    if (!simple) fail("ICU", std::string("no date format for ") + locale.getName());
    simple->setTimeZone(*icu::TimeZone::getGMT());
    format.release();
    return Format(simple);
  }

  icu::UnicodeString write(Index day, std::size_t digits, std::size_t pattern) const {
    icu::UnicodeString text;
    formats_[digits]->applyPattern(patterns_[pattern]);
    return formats_[digits]->format(86'400'000.0 * static_cast<double>(day), text);
  }

  icu::Locale locale_;
  std::vector<icu::UnicodeString> patterns_;  // styles first
  std::vector<Format> formats_;               // with native digits, then with Latin ones
};

std::vector<std::unique_ptr<DateWriter>> all_locales() {
  std::vector<std::unique_ptr<DateWriter>> writers;
  std::set<std::string> seen;
  for (int32_t i = 0; i < uloc_countAvailable(); ++i) {
    auto writer = std::make_unique<DateWriter>(uloc_getAvailable(i));
    if (writer->has_month_names() && seen.insert(writer->sample()).second)
      writers.push_back(std::move(writer));
  }
  return writers;
}

/// Names of ICU's locales, including aliases: zh_TW for zh_Hant_TW.
std::set<std::string> known_locales() {
  UErrorCode status = U_ZERO_ERROR;
  UEnumeration* names = uloc_openAvailableByType(ULOC_AVAILABLE_WITH_LEGACY_ALIASES, &status);
  std::set<std::string> known;
  while (const char* name = uenum_next(names, nullptr, &status)) known.insert(name);
  uenum_close(names);
  check_icu(status, "the list of locales");
  return known;
}

std::vector<std::unique_ptr<DateWriter>> locales(const std::string& list) {
  if (list == "all") return all_locales();
  std::set<std::string> known = known_locales();
  std::vector<std::unique_ptr<DateWriter>> writers;
  std::istringstream names(list + ",");
  for (std::string given; std::getline(names, given, ',');) {
    const std::string name = icu::Locale(given.c_str()).getName();
    // ICU would silently fall back to another locale.
    if (known.erase(name) == 0)
      fail("LOCALES", in_quotes(given) + " is repeated or not a locale of ICU");
    writers.push_back(std::make_unique<DateWriter>(name));
  }
  return writers;
}

std::string iso8601(Index day) {
  using namespace std::chrono;
  const year_month_day date{sys_days{std::chrono::days{day}}};
  const auto two_digits = [](auto n) { return std::to_string(100 + unsigned{n}).substr(1); };
  return std::to_string(int{date.year()}) + "-" + two_digits(date.month()) + "-" +
         two_digits(date.day());
}

void run(std::vector<std::string> arguments) {
  const bool held_out = std::erase(arguments, "held-out") > 0;
  std::array<std::uint64_t, 2> numbers{0, 1};
  auto& [count, seed] = numbers;
  bool understood = arguments.size() == 2 || arguments.size() == 3;
  for (std::size_t i = 1; understood && i < arguments.size(); ++i) {
    const char* const last = arguments[i].data() + arguments[i].size();
    const auto [end, error] = std::from_chars(arguments[i].data(), last, numbers[i - 1]);
    understood = error == std::errc() && end == last;
  }
  if (!understood) fail("usage", "dates_tsv LOCALES COUNT [held-out] [SEED] > FILE.tsv");
  const auto writers = locales(arguments[0]);
  Random random(seed, held_out ? "held out" : "training");
  for (std::uint64_t n = 0; n < count && std::cout; ++n) {
    Index day;
    do day = random.below(days);
    while ((day % 16 == 0) != held_out);
    const auto& writer = *writers[random.below(std::ssize(writers))];
    std::cout << writer.draw(day, random) << '\t' << iso8601(day) << '\n';
  }
  if (!std::cout.flush()) fail("standard output", "cannot be written");
}

}  // namespace
}  // namespace attune

int main(int argc, char** argv) try {
  attune::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  std::cerr << "dates_tsv: " << error.what() << "\n";
  return 1;
}
