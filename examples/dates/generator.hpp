#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tsv.hpp"

namespace attune::dates {

/// A source of random numbers: `below(n)` is uniform on the integers 0 .. n - 1.
using Below = std::function<std::uint64_t(std::uint64_t n)>;

struct GeneratorOptions {
  std::vector<std::string> locales = {"en"};  ///< as parse_locales() returns them
  int held_out = 2000;                        ///< dates kept for validation, 0 .. 36524
  std::uint64_t seed = 1;  ///< chooses those dates, and how validation() writes them
};

/// Makes up dates as ICU's locales write them: rows such as "Wednesday June 27 2001", "2001-06-27"
/// and the spans y:18-22 m:10-14 d:15-17.
///
/// The dates are the 36525 days from 1970-01-01 to 2069-12-31, so that a year of two digits has one
/// meaning. An example is made from five choices, each uniform:
///
///  * a day that is not held out;
///  * a locale, always with the Gregorian calendar;
///  * the locale's own digits or Latin ones, where its own are not Latin;
///  * a pattern: the locale's SHORT, MEDIUM, LONG or FULL style, or one of ten that are the same
///    for every locale, such as `d MMMM, y` or `dd.MM.yy`;
///  * a variant: as written, upper case or lower case (by the locale's rules), each with its commas
///    or without. A comma is any script's: the Latin, Arabic, Ethiopic, N'Ko, Adlam and Myanmar
///    ones, and the ideographic and fullwidth ones of East Asia. The spaces beside it stay, and so
///    do no-break spaces and marks of direction everywhere.
///
/// A style's pattern is used without a numbering system it may prescribe for one field: of ICU 72's
/// locales that is Hawaiian alone, whose SHORT style has the month in Roman numerals.
///
/// The sources are what the installed ICU writes; apart from that, the examples depend only on the
/// options and on `below`. Formatters are made when a locale is first used. Copies share them,
/// and must be used by one thread at a time.
class Generator {
 public:
  /// Throws std::invalid_argument for an unknown locale, no locale, or `held_out` out of range.
  explicit Generator(const GeneratorOptions& options = {});

  /// One random example whose date is not held out. Asks `below` for each choice in turn; throws
  /// std::out_of_range if an answer is not below n.
  Row sample(const Below& below) const;

  /// One example for each held-out date, in the order of dates; the same at every call. Which dates
  /// these are depends on `held_out` and `seed` and not on the locales.
  std::vector<Row> validation() const;

  /// The code points that sources can contain, each as a UTF-8 string, in ascending order.
  std::vector<std::string> alphabet() const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// The locales in a list such as "en", "en,de-AT,zh_Hant" or "all", in ICU's spelling ("de_AT"),
/// each once. "all" stands for every locale that has month names, of several that write all dates
/// alike (en, en_US, en_PH, ...) the first. Throws an Error for a name that is not in ICU's list of
/// locales: ICU itself would fall back to another one without a word.
std::vector<std::string> parse_locales(std::string_view list);

}  // namespace attune::dates
