#include "dates/generator.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <unicode/locid.h>
#include <unicode/timezone.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <attune/tensor/check.hpp>

#include "support/capture.hpp"

namespace attune::dates {
namespace {

using Strings = std::vector<std::string>;
using StringSet = std::set<std::string>;

constexpr std::uint64_t kDays = 36525;

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int month_length(int year, int month) {
  constexpr std::array kLengths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && is_leap(year) ? 29 : kLengths[month - 1];
}

/// Days since 1970-01-01, by counting.
std::uint64_t day_number(int year, int month, int day) {
  int days = day - 1;
  for (int y = 1970; y < year; ++y) days += is_leap(y) ? 366 : 365;
  for (int m = 1; m < month; ++m) days += month_length(year, m);
  return days;
}

/// The day of the week by Zeller's rule, where Saturday is 0 and the year begins in March.
std::string weekday(int year, int month, int day) {
  constexpr std::array kNames = {"Saturday",  "Sunday",   "Monday", "Tuesday",
                                 "Wednesday", "Thursday", "Friday"};
  if (month < 3) month += 12, --year;
  const int of_century = year % 100, century = year / 100;
  return kNames[(day + 13 * (month + 1) / 5 + of_century + of_century / 4 + century / 4 +
                 5 * century) %
                7];
}

/// Random numbers for the tests: the middle bits of a linear congruential generator.
Below random_numbers(std::uint64_t state) {
  return [state](std::uint64_t n) mutable {
    state = state * 6364136223846793005 + 1442695040888963407;
    return (state >> 24) % n;
  };
}

/// Everything that a generator can make of one day: it is given every combination of answers.
StringSet every_source(const Generator& generator, std::uint64_t day) {
  struct Answer {
    std::uint64_t value, n;
  };
  std::vector<Answer> answers;
  StringSet sources;
  do {
    std::size_t asked = 0;
    const Row example = generator.sample([&](std::uint64_t n) {
      if (n == kDays) return day;
      if (asked == answers.size()) answers.push_back({0, n});
      return answers[asked++].value;
    });
    sources.insert(example.source);
    while (!answers.empty() && answers.back().value + 1 == answers.back().n) answers.pop_back();
    if (!answers.empty()) ++answers.back().value;
  } while (!answers.empty());
  return sources;
}

StringSet every_source(const std::string& locale, int year, int month, int day) {
  const Generator generator({.locales = {locale}, .held_out = 0});
  return every_source(generator, day_number(year, month, day));
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at; (at = text.find(part)) != text.npos;) text.erase(at, part.size());
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

bool any_contains(const StringSet& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(), [&](auto& text) { return contains(text, part); });
}

Strings targets(const std::vector<Row>& examples) {
  Strings result;
  for (const Row& example : examples) result.push_back(example.target);
  return result;
}

/// The decimal numbers in a text, in any script's digits.
std::set<int> numbers_in(const std::string& text) {
  const icu::UnicodeString characters = icu::UnicodeString::fromUTF8(text);
  std::set<int> numbers;
  int number = -1;
  for (int32_t i = 0; i < characters.length(); i = characters.moveIndex32(i, 1)) {
    const int digit = u_charDigitValue(characters.char32At(i));
    if (digit < 0 && number >= 0) numbers.insert(std::exchange(number, -1));
    if (digit >= 0) number = std::max(number, 0) * 10 + digit;
  }
  if (number >= 0) numbers.insert(number);
  return numbers;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("Generator: English has fourteen patterns, each in six variants, and nothing else") {
  const Strings as_written = {
      "3/5/04",       "Mar 5, 2004",  "March 5, 2004", "Friday, March 5, 2004", "5 Mar 2004",
      "5 March 2004", "05 Mar 2004",  "5 Mar, 2004",   "5 March, 2004",         "05, Mar 2004",
      "5 03 04",      "March 5 2004", "05.03.04"};  // MMMM d, y is the LONG style again
  StringSet expected;
  for (const std::string& text : as_written) {
    const std::string bare = without(text, ",");
    expected.insert({text, upper(text), lower(text), bare, upper(bare), lower(bare)});
  }
  CHECK(every_source("en", 2004, 3, 5) == expected);
}

TEST_CASE("Generator: days of two digits are written alike by d and dd") {
  const StringSet sources = every_source("en", 1975, 1, 16);
  for (const char* text : {"16.01.75", "16 01 75", "16 Jan 1975", "16, Jan 1975", "1/16/75",
                           "Thursday January 16 1975", "16 JANUARY, 1975", "jan 16, 1975"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
}

TEST_CASE("Generator: the weekday is the one that Zeller's rule gives") {
  const Generator generator({.held_out = 0});
  for (int year = 1970; year < 2070; year += 3) {
    for (int month = 1; month <= 12; ++month) {
      const int day = 1 + (year + 5 * month) % 28;
      const StringSet sources = every_source(generator, day_number(year, month, day));
      const auto full = std::count_if(sources.begin(), sources.end(), [&](const auto& text) {
        return contains(text, weekday(year, month, day));
      });
      CHECK(full == 2);  // as written, with commas and without
    }
  }
}

TEST_CASE("Generator: the days run from 1970-01-01 to 2069-12-31, each once and in order") {
  const Generator generator({.held_out = 0});
  std::uint64_t day = 0;
  for (int year = 1970; year < 2070; ++year) {
    for (int month = 1; month <= 12; ++month) {
      for (int d = 1; d <= month_length(year, month); ++d, ++day) {
        char expected[32];
        std::snprintf(expected, sizeof expected, "%04d-%02d-%02d", year, month, d);
        const Row example = generator.sample([&](std::uint64_t n) { return n == kDays ? day : 0; });
        REQUIRE(example.target == expected);
      }
    }
  }
  CHECK(day == kDays);
}

TEST_CASE("Generator: a year of two digits means 1970 to 2069") {
  CHECK(every_source("en", 1970, 1, 1).contains("1/1/70"));
  CHECK(every_source("en", 1999, 12, 31).contains("31.12.99"));
  CHECK(every_source("en", 2000, 2, 29).contains("29 02 00"));
  CHECK(every_source("en", 2069, 12, 31).contains("12/31/69"));
}

TEST_CASE("Generator: the year is the calendar's, not the week's, around New Year") {
  // Monday 2018-12-31 lies in week 1 of 2019; Friday 2021-01-01 in week 53 of 2020 by ISO 8601.
  const StringSet before = every_source("en", 2018, 12, 31);
  CHECK(before.contains("Monday, December 31, 2018"));
  CHECK(before.contains("31 Dec 2018"));
  CHECK_FALSE(any_contains(before, "19"));
  const StringSet after = every_source("de", 2021, 1, 1);
  CHECK(after.contains("Freitag, 1. Januar 2021"));
  CHECK_FALSE(any_contains(after, "20.2020"));
  CHECK_FALSE(any_contains(after, "2020"));
}

TEST_CASE("Generator: in every locale the numbers are those of the date") {
  // A Monday whose week belongs to 2019. In the Buddhist calendar its year is 2561, in the Persian
  // one 1397, in the Islamic 1440, in Japan Heisei 30.
  for (const std::string& locale : parse_locales("all")) {
    CAPTURE(locale);
    for (const std::string& source : every_source(locale, 2018, 12, 31)) {
      CAPTURE(source);
      std::set<int> numbers = numbers_in(source);
      CHECK(numbers.contains(31));
      CHECK(numbers.contains(2018) != numbers.contains(18));
      for (int expected : {31, 12, 2018, 18}) numbers.erase(expected);
      if (locale == "mgo") numbers.erase(2);  // Meta' numbers its weekdays: Monday is Aneg 2
      CHECK(numbers.empty());
    }
  }
}

TEST_CASE("Generator: German has its own styles and upper-cases umlauts") {
  const StringSet sources = every_source("de", 1999, 3, 9);
  for (const char* text : {"Dienstag, 9. März 1999", "DIENSTAG, 9. MÄRZ 1999",
                           "dienstag, 9. märz 1999", "Dienstag 9. März 1999", "9. März 1999",
                           "09.03.1999", "09.03.99", "9 März, 1999", "9 03 99"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
}

TEST_CASE("Generator: French has its own styles") {
  const StringSet sources = every_source("fr", 2001, 6, 27);
  for (const char* text : {"mercredi 27 juin 2001", "MERCREDI 27 JUIN 2001", "27 juin 2001",
                           "27/06/2001", "27.06.01", "juin 27, 2001"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
}

TEST_CASE("Generator: Spanish words between the fields change case with the rest") {
  const StringSet sources = every_source("es", 2001, 6, 27);
  for (const char* text : {"miércoles, 27 de junio de 2001", "MIÉRCOLES, 27 DE JUNIO DE 2001",
                           "miércoles 27 de junio de 2001", "27 de junio de 2001", "27/6/01"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
}

TEST_CASE("Generator: Japanese has year, month and day signs and no era") {
  const StringSet sources = every_source("ja", 2001, 6, 27);
  for (const char* text : {"2001年6月27日水曜日", "2001年6月27日", "2001/06/27", "27 6月 2001"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
  CHECK_FALSE(any_contains(sources, "平成"));
}

TEST_CASE("Generator: Thai counts years by the Gregorian calendar") {
  const StringSet sources = every_source("th", 2001, 6, 27);
  CHECK(any_contains(sources, "2001"));
  CHECK_FALSE(any_contains(sources, "2544"));  // 2001 + 543
}

TEST_CASE("Generator: Persian counts years by the Gregorian calendar, in both sets of digits") {
  const StringSet sources = every_source("fa", 2001, 6, 27);
  CHECK(any_contains(sources, "۲۰۰۱"));
  CHECK(any_contains(sources, "2001"));
  CHECK_FALSE(any_contains(sources, "۱۳۸۰"));  // the Persian year 1380
  CHECK_FALSE(any_contains(sources, "1380"));
}

TEST_CASE("Generator: Arabic comes with its own and with Latin digits, and loses its comma") {
  const StringSet sources = every_source("ar", 2001, 6, 27);
  for (const char* text :
       {"الأربعاء، ٢٧ يونيو ٢٠٠١", "الأربعاء، 27 يونيو 2001", "الأربعاء ٢٧ يونيو ٢٠٠١",
        "الأربعاء 27 يونيو 2001", "٢٧.٠٦.٠١", "27.06.01"}) {
    CHECK_MESSAGE(sources.contains(text), text);
  }
}

TEST_CASE("Generator: the commas of other scripts can be absent like the Latin one") {
  const std::array<std::array<std::string, 2>, 4> cases = {
      {{"ur", "،"}, {"ti", "፣"}, {"ff_Adlm", "⹁"}, {"my", "၊"}}};
  for (const auto& [locale, comma] : cases) {
    CAPTURE_BINDING(locale);
    const StringSet sources = every_source(locale, 2001, 6, 27);
    std::string full;  // the only style with the weekday, hence the longest
    for (const std::string& source : sources) {
      if (source.size() > full.size()) full = source;
    }
    REQUIRE(contains(full, comma));
    CHECK(
        std::any_of(sources.begin(), sources.end(), [&, comma = comma](const std::string& source) {
          return source.size() == full.size() && sources.contains(without(source, comma));
        }));
  }
}

TEST_CASE("Generator: a locale whose digits are Latin gets no others") {
  const StringSet sources = every_source("hi", 2001, 6, 27);
  CHECK(any_contains(sources, "2001"));
  CHECK_FALSE(any_contains(sources, "२००१"));
}

TEST_CASE("Generator: Turkish upper case keeps the dot of the i") {
  const StringSet sources = every_source("tr", 2001, 6, 27);
  CHECK(sources.contains("27 HAZİRAN 2001"));
  CHECK(sources.contains("27 haziran 2001"));
  CHECK_FALSE(any_contains(sources, "HAZIRAN"));
}

TEST_CASE("Generator: Greek upper case drops the accents") {
  const StringSet sources = every_source("el", 2001, 6, 27);
  CHECK(sources.contains("27 Ιουνίου 2001"));
  CHECK(sources.contains("27 ΙΟΥΝΙΟΥ 2001"));
}

/// The code points that a field's span covers; empty without such a span.
icu::UnicodeString field_text(const Row& row, char field) {
  const icu::UnicodeString source = icu::UnicodeString::fromUTF8(row.source);
  for (const Span& span : row.spans) {
    if (span.field != field) continue;
    const int32_t begin = source.moveIndex32(0, span.begin), end = source.moveIndex32(0, span.end);
    return {source, begin, end - begin};
  }
  return {};
}

std::string field_utf8(const Row& row, char field) {
  std::string text;
  return field_text(row, field).toUTF8String(text);
}

/// In any script's digits, or -1 where there is anything else.
int number_of(const icu::UnicodeString& text) {
  int number = text.isEmpty() ? -1 : 0;
  for (int32_t i = 0; i < text.length() && number >= 0; i = text.moveIndex32(i, 1)) {
    const int digit = u_charDigitValue(text.char32At(i));
    number = digit < 0 ? -1 : 10 * number + digit;
  }
  return number;
}

TEST_CASE(
    "Generator: an English date's spans cover its year, month and day, whatever the letters") {
  const Strings months = {"january", "february", "march",     "april",   "may",      "june",
                          "july",    "august",   "september", "october", "november", "december"};
  const Generator generator({.held_out = 0});
  const Below below = random_numbers(3);
  for (int i = 0; i < 2000; ++i) {
    const Row row = generator.sample(below);
    CAPTURE(row.source);
    const int year = std::stoi(row.target.substr(0, 4)), month = std::stoi(row.target.substr(5, 2)),
              day = std::stoi(row.target.substr(8, 2));
    REQUIRE(row.spans.size() == 3);
    const std::string y = field_utf8(row, 'y'), m = lower(field_utf8(row, 'm'));
    CHECK(std::stoi(y) == (y.size() == 2 ? year % 100 : year));
    CHECK(std::stoi(field_utf8(row, 'd')) == day);
    const std::string& name = months[static_cast<std::size_t>(month - 1)];
    CHECK((std::isdigit(m[0]) ? std::stoi(m) == month : m == name || m == name.substr(0, 3)));
  }
}

TEST_CASE("Generator: in every locale the spans lie in the source, apart, on the date's numbers") {
  int numbers = 0;
  for (const std::string& locale : parse_locales("all")) {
    const Generator generator({.locales = {locale}, .held_out = 0});
    const Below below = random_numbers(21);
    for (int i = 0; i < 60; ++i) {
      const Row row = generator.sample(below);
      CAPTURE(locale);
      CAPTURE(row.source);
      REQUIRE(row.spans.size() == 3);
      const int length = icu::UnicodeString::fromUTF8(row.source).countChar32();
      std::vector<Span> spans = row.spans;
      std::ranges::sort(spans, {}, &Span::begin);
      int end = 0;
      for (const Span& span : spans) {
        CHECK(span.begin >= end);
        CHECK(span.end > span.begin);
        end = span.end;
      }
      CHECK(end <= length);
      const int year = number_of(field_text(row, 'y')), day = number_of(field_text(row, 'd'));
      const int expected = std::stoi(row.target.substr(0, 4));
      CHECK((year == expected || year == expected % 100));
      CHECK(day == std::stoi(row.target.substr(8, 2)));
      const int month = number_of(field_text(row, 'm'));
      if (month >= 0) CHECK(month == std::stoi(row.target.substr(5, 2)));
      numbers += month >= 0;
    }
  }
  CHECK(numbers > 1000);
}

TEST_CASE("Generator: the same answers give the same example") {
  const Generator one({.locales = {"en", "ar", "ja"}}), other({.locales = {"en", "ar", "ja"}});
  const Below first = random_numbers(7), second = random_numbers(7);
  for (int i = 0; i < 500; ++i) {
    const Row a = one.sample(first), b = other.sample(second);
    CHECK(a.source == b.source);
    CHECK(a.target == b.target);
  }
}

TEST_CASE("Generator: the process's time zone and locale do not show") {
  const StringSet expected = every_source("en", 2001, 6, 27);
  const icu::Locale locale = icu::Locale::getDefault();
  icu::TimeZone* zone = icu::TimeZone::createDefault();
  UErrorCode status = U_ZERO_ERROR;
  for (const char* away : {"Pacific/Kiritimati", "Pacific/Pago_Pago"}) {  // UTC+14, UTC-11
    icu::TimeZone::adoptDefault(icu::TimeZone::createTimeZone(away));
    icu::Locale::setDefault(icu::Locale("ar_EG"), status);
    CHECK(every_source("en", 2001, 6, 27) == expected);
  }
  icu::TimeZone::adoptDefault(zone);
  icu::Locale::setDefault(locale, status);
}

TEST_CASE("Generator: a held-out date is never sampled, and every other date is") {
  constexpr int kHeldOut = 2000;
  const Generator generator({.held_out = kHeldOut});
  const Strings held_out = targets(generator.validation());
  StringSet sampled;
  for (std::uint64_t day = 0; day < kDays - kHeldOut; ++day) {
    sampled.insert(
        generator.sample([&](std::uint64_t n) { return n == kDays - kHeldOut ? day : 0; }).target);
  }
  CHECK(sampled.size() == kDays - kHeldOut);
  for (const std::string& date : held_out) CHECK_FALSE(sampled.contains(date));
}

TEST_CASE("Generator: random samples keep clear of the held-out dates") {
  const Generator generator({.locales = {"en", "de"}, .held_out = 30000});
  const Strings validation = targets(generator.validation());
  const StringSet held_out(validation.begin(), validation.end());
  const Below below = random_numbers(3);
  for (int i = 0; i < 20000; ++i) REQUIRE_FALSE(held_out.contains(generator.sample(below).target));
}

TEST_CASE("Generator: validation has each held-out date once, in order, the same at every call") {
  const Generator generator({.locales = {"en", "fr", "bn"}, .held_out = 300, .seed = 5});
  const std::vector<Row> first = generator.validation(), second = generator.validation();
  REQUIRE(first.size() == 300);
  REQUIRE(second.size() == 300);
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].source == second[i].source);
    CHECK(first[i].target == second[i].target);
    if (i > 0) CHECK(first[i - 1].target < first[i].target);
  }
}

TEST_CASE("Generator: what validation writes is one of the locale's ways to write that date") {
  const Generator validating({.held_out = 50}), writing({.held_out = 0});
  for (const Row& example : validating.validation()) {
    const int year = std::stoi(example.target.substr(0, 4));
    const int month = std::stoi(example.target.substr(5, 2));
    const int day = std::stoi(example.target.substr(8, 2));
    CHECK(every_source(writing, day_number(year, month, day)).contains(example.source));
  }
}

TEST_CASE("Generator: the held-out dates do not depend on the locales") {
  const Strings english = targets(Generator({.held_out = 100}).validation());
  CHECK(english == targets(Generator({.locales = {"ja", "ar"}, .held_out = 100}).validation()));
}

TEST_CASE("Generator: another seed holds out other dates") {
  const Strings one = targets(Generator({.held_out = 1000, .seed = 1}).validation());
  const Strings two = targets(Generator({.held_out = 1000, .seed = 2}).validation());
  Strings common;
  std::set_intersection(one.begin(), one.end(), two.begin(), two.end(), std::back_inserter(common));
  // 1000 · 1000 / 36525 = 27 dates in common on average, with a standard deviation of 5.
  CHECK(common.size() < 60);
}

TEST_CASE("Generator: the held-out dates are spread over the century") {
  std::array<int, 10> decades{};
  for (const Row& example : Generator({.held_out = 5000, .seed = 9}).validation()) {
    ++decades[(std::stoi(example.target.substr(0, 4)) - 1970) / 10];
  }
  for (int count : decades) {  // 500 on average, with a standard deviation of 20
    CHECK(count > 400);
    CHECK(count < 600);
  }
}

TEST_CASE("Generator: nothing or all but one date can be held out") {
  CHECK(Generator({.held_out = 0}).validation().empty());
  const Generator generator({.held_out = 36524});
  CHECK(generator.validation().size() == 36524);
  const Below below = random_numbers(1);
  const std::string only = generator.sample(below).target;
  for (int i = 0; i < 100; ++i) CHECK(generator.sample(below).target == only);
}

TEST_CASE("Generator: the patterns and the variants are equally frequent") {
  const Generator generator({.held_out = 0});
  const Below below = random_numbers(11);
  constexpr int kSamples = 56000;
  int full = 0, shouted = 0, whispered = 0, comma_free = 0;
  for (int i = 0; i < kSamples; ++i) {
    const std::string source = generator.sample(below).source;
    if (!contains(lower(source), "day")) continue;
    ++full;
    shouted += source == upper(source);
    whispered += source == lower(source);
    comma_free += !contains(source, ",");
  }
  CHECK(full == doctest::Approx(kSamples / 14).epsilon(0.08));  // 4000, standard deviation 61
  for (int count : {shouted, whispered}) {
    CHECK(count == doctest::Approx(full / 3).epsilon(0.15));  // 1333, standard deviation 30
  }
  CHECK(comma_free == doctest::Approx(full / 2).epsilon(0.15));  // 2000, standard deviation 32
}

TEST_CASE("Generator: native and Latin digits are equally frequent") {
  const Generator generator({.locales = {"bn"}, .held_out = 0});
  const Below below = random_numbers(13);
  int latin = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string source = generator.sample(below).source;
    latin += source.find_first_of("0123456789") != source.npos;
  }
  CHECK(latin == doctest::Approx(5000).epsilon(0.05));  // standard deviation 50
}

TEST_CASE("Generator: the locales are equally frequent") {
  const Generator generator({.locales = {"el", "ja", "hi"}, .held_out = 0});
  const Below below = random_numbers(17);
  std::array<int, 3> first_asked{};
  for (int i = 0; i < 9000; ++i) {
    generator.sample([&](std::uint64_t n) {
      const std::uint64_t choice = below(n);
      if (n == 3) ++first_asked[choice];
      return choice;
    });
  }
  for (int count : first_asked) CHECK(count == doctest::Approx(3000).epsilon(0.08));
}

TEST_CASE("Generator: an unknown locale is an error that names it") {
  CHECK(message_of([] {
          Generator({.locales = {"en", "xx"}});
        }) == "Generator: 'xx' is not a locale ICU knows");
  CHECK_THROWS_AS(Generator({.locales = {""}}), std::invalid_argument);
  CHECK(message_of([] { Generator({.locales = {}}); }) == "Generator: no locales");
}

TEST_CASE("Generator: a number of held-out dates that leaves none, or below zero, is an error") {
  CHECK(message_of([] { Generator({.held_out = 36525}); }) ==
        "Generator: held_out is 36525, expected 0 to 36524");
  CHECK(message_of([] { Generator({.held_out = -1}); }) ==
        "Generator: held_out is -1, expected 0 to 36524");
  CHECK_THROWS_AS(Generator({.held_out = -1}), std::invalid_argument);
}

TEST_CASE("Generator: an answer that is not below n is an error, at whichever choice") {
  const Generator generator({.locales = {"en", "ar"}});
  for (int wrong = 0; wrong < 4; ++wrong) {
    int asked = 0;
    const Below below = [&](std::uint64_t n) { return asked++ == wrong ? n : 0; };
    CHECK_THROWS_AS(generator.sample(below), std::out_of_range);
  }
}

TEST_CASE("Generator: the English alphabet is what months, weekdays, digits and marks consist of") {
  StringSet expected = {" ", ",", ".", "/"};
  for (char digit = '0'; digit <= '9'; ++digit) expected.insert(std::string(1, digit));
  const std::string names =
      "January February March April May June July August September October November December "
      "Monday Tuesday Wednesday Thursday Friday Saturday Sunday";
  for (char c : names + upper(names) + lower(names)) expected.insert(std::string(1, c));
  CHECK(Generator().alphabet() == Strings(expected.begin(), expected.end()));
}

TEST_CASE("Generator: the alphabet is in order of code points, each once") {
  const Strings alphabet = Generator({.locales = {"ar", "ja", "de", "ccp"}}).alphabet();
  UChar32 last = -1;
  for (const std::string& character : alphabet) {
    const icu::UnicodeString text = icu::UnicodeString::fromUTF8(character);
    REQUIRE(text.countChar32() == 1);
    CHECK(text.char32At(0) > last);
    last = text.char32At(0);
  }
  CHECK(last > 0xFFFF);  // Chakma, ccp, has its digits at U+11136
}

TEST_CASE("Generator: the alphabet holds native and Latin digits, and both cases") {
  const Strings alphabet = Generator({.locales = {"ar", "tr"}}).alphabet();
  for (const char* character : {"٠", "١", "٢", "٣", "٤", "٥", "٦", "٧", "٨", "٩", "0", "9", "،",
                                "ş", "Ş", "ı", "I", "i", "İ"}) {
    CHECK_MESSAGE(std::find(alphabet.begin(), alphabet.end(), character) != alphabet.end(),
                  character);
  }
}

TEST_CASE("Generator: no source has a character outside the alphabet") {
  for (const char* locale : {"en", "de", "tr", "el", "ar", "lt", "my", "zh_Hant", "ff_Adlm"}) {
    CAPTURE(locale);
    const Generator generator({.locales = {locale}, .held_out = 0});
    const Strings alphabet = generator.alphabet();
    icu::UnicodeString known;
    for (const std::string& character : alphabet) known += icu::UnicodeString::fromUTF8(character);
    for (std::uint64_t day = 0; day < kDays; day += 83) {
      for (const std::string& source : every_source(generator, day)) {
        const icu::UnicodeString text = icu::UnicodeString::fromUTF8(source);
        for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
          REQUIRE(known.indexOf(text.char32At(i)) >= 0);
        }
      }
    }
  }
}

TEST_CASE("Generator: in all locales the sources fit a line of an example file") {
  const Generator generator({.locales = parse_locales("all")});
  const Below below = random_numbers(19);
  for (int i = 0; i < 20000; ++i) {
    const Row example = generator.sample(below);
    CAPTURE(example.source);
    REQUIRE_FALSE(example.source.empty());
    REQUIRE(example.source.find_first_of("\t\r\n") == example.source.npos);
    REQUIRE(icu::UnicodeString::fromUTF8(example.source).indexOf(UChar32(0xFFFD)) < 0);
    REQUIRE(example.target.size() == 10);
  }
}

TEST_CASE("parse_locales: a list is split at its commas, and its order is kept") {
  CHECK(parse_locales("en") == Strings{"en"});
  CHECK(parse_locales("fr,en,de") == Strings{"fr", "en", "de"});
}

TEST_CASE("parse_locales: a name may have hyphens or underscores and any case") {
  CHECK(parse_locales("en_US") == Strings{"en_US"});
  CHECK(parse_locales("en-US") == Strings{"en_US"});
  CHECK(parse_locales("DE-at") == Strings{"de_AT"});
  CHECK(parse_locales("zh-hant-tw") == Strings{"zh_Hant_TW"});
}

TEST_CASE("parse_locales: a locale named twice, however spelt, is taken once") {
  CHECK(parse_locales("en-US,de,en_US,de") == Strings{"en_US", "de"});
}

TEST_CASE("parse_locales: a name that ICU would silently replace is an error") {
  CHECK(message_of([] { parse_locales("en,xx"); }) == "--locales: 'xx' is not a locale ICU knows");
  CHECK(message_of([] { parse_locales("klingon"); }) ==
        "--locales: 'klingon' is not a locale ICU knows");
  for (const char* list : {"en_XX", "english", "root", "C", "en_US.UTF-8", "en@calendar=buddhist",
                           "th-u-ca-buddhist", "en;de", "en de", "\xFF"}) {
    CAPTURE(list);
    CHECK_THROWS_AS(parse_locales(list), Error);
  }
}

TEST_CASE("parse_locales: an empty name is an error") {
  for (const char* list : {"", ",", "en,", ",en", "en,,de"}) {
    CAPTURE(list);
    CHECK(message_of([&] { parse_locales(list); }) == "--locales: '' is not a locale ICU knows");
  }
}

TEST_CASE("parse_locales: all has the world's languages, and none twice") {
  const Strings all = parse_locales("all");
  const StringSet distinct(all.begin(), all.end());
  CHECK(distinct.size() == all.size());
  for (const char* locale : {"en", "de", "fr", "es", "ja", "ar", "fa", "th", "he", "ru", "my"}) {
    CHECK_MESSAGE(distinct.contains(locale), locale);
  }
}

TEST_CASE("parse_locales: all leaves out a locale that writes like one before it") {
  const Strings all = parse_locales("all");
  const auto has = [&](const char* name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  CHECK_FALSE(has("en_US"));  // as en
  CHECK_FALSE(has("de_DE"));  // as de
  CHECK(has("de_AT"));        // Jänner
  CHECK(has("en_AU"));        // the day before the month
}

TEST_CASE("parse_locales: all leaves out locales without month names") {
  for (const std::string& locale : parse_locales("all")) {
    CAPTURE(locale);
    CHECK_FALSE(any_contains(every_source(locale, 2001, 1, 27), "M01"));
  }
}

TEST_CASE("parse_locales: all can stand in a list") {
  const Strings list = parse_locales("en_US,all,de");
  CHECK(list.front() == "en_US");
  CHECK(std::count(list.begin(), list.end(), "de") == 1);
  CHECK(list.size() == parse_locales("all").size() + 1);
}

}  // namespace
}  // namespace attune::dates
