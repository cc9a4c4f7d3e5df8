// Dates as one of ICU's locales writes them.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <unicode/locid.h>
#include <unicode/smpdtfmt.h>
#include <unicode/unistr.h>

#include "tsv.hpp"

namespace attune::dates {

/// Throws where ICU has failed at `what`.
void check_icu(UErrorCode status, const char* what);

std::string utf8(const icu::UnicodeString& text);

/// Four styles of the locale, and ten patterns that are the same for all.
inline constexpr std::size_t kPatternCount = 14;

enum class Letters { kAsWritten, kUpper, kLower };

struct Variant {
  Letters letters;
  bool commas;
};

inline constexpr std::array<Variant, 6> kVariants = {{{Letters::kAsWritten, /*commas=*/true},
                                                      {Letters::kUpper, /*commas=*/true},
                                                      {Letters::kLower, /*commas=*/true},
                                                      {Letters::kAsWritten, /*commas=*/false},
                                                      {Letters::kUpper, /*commas=*/false},
                                                      {Letters::kLower, /*commas=*/false}}};

/// A date as it is written, and its fields' spans: in UTF-16 code units.
struct Writing {
  icu::UnicodeString text;
  std::vector<Span> fields;
};

/// As a row of an example file has it: UTF-8, and spans in code points.
Row to_row(const Writing& writing, std::string target);

/// Writes days as one locale does.
class DateWriter {
 public:
  explicit DateWriter(const std::string& name);

  /// 1, or 2 where the locale's own digits (number 0) are not Latin (number 1).
  std::size_t digit_sets() const { return formats_.size(); }

  /// False if ICU falls back to its root, where January is "M01".
  bool has_month_names() const;

  Writing write(int day, std::size_t digits, std::size_t pattern) const;

  Writing vary(const Writing& writing, Variant variant) const;

 private:
  icu::Locale locale_;
  std::vector<icu::UnicodeString> patterns_;  // styles first
  // A formatter per set of digits, which changes its pattern for every date: one for each pattern
  // would take 14 times the memory, some 50 KB each, and changing is cheap beside formatting.
  std::vector<std::unique_ptr<icu::SimpleDateFormat>> formats_;
};

}  // namespace attune::dates
