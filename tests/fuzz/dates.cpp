// Generated dates: any choices in any locale, and lists of locales.
#include <map>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <attune/models/text/utf8.hpp>

#include "dates/generator.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

/// Before the first input, which must not take the seconds that this does.
const std::vector<std::string> locales = dates::parse_locales("all");

const dates::Generator& generator_of(std::size_t number) {
  static std::map<std::string, dates::Generator> generators;
  const std::string& locale = locales[number % locales.size()];
  return generators.try_emplace(locale, dates::GeneratorOptions{.locales = {locale}}).first->second;
}

/// The number that decimal digits of any script make, or -1.
int number_of(const std::vector<std::string>& points, const dates::Span& span) {
  int number = 0;
  for (int i = span.begin; i < span.end; ++i) {
    const auto text = icu::UnicodeString::fromUTF8(points[static_cast<std::size_t>(i)]);
    const int digit = u_charDigitValue(text.char32At(0));
    if (digit < 0) return -1;
    number = 10 * number + digit;
  }
  return number;
}

void check_row(const dates::Row& row) {
  expect(!text::words(row.source).empty(), "a date without words");
  expect(row.target.size() == 10, "not an ISO date");
  const std::vector<std::string> points = text::code_points(row.source);
  expect(row.spans.size() == 3, "not three spans");
  std::map<char, int> wanted = {{'y', std::stoi(row.target.substr(0, 4))},
                                {'m', std::stoi(row.target.substr(5, 2))},
                                {'d', std::stoi(row.target.substr(8, 2))}};
  std::vector<bool> taken(points.size());
  for (const dates::Span& span : row.spans) {
    expect(0 <= span.begin && span.begin < span.end && span.end <= std::ssize(points),
           "a span beyond it");
    for (int i = span.begin; i < span.end; ++i) {
      expect(!taken[static_cast<std::size_t>(i)], "spans overlap");
      taken[static_cast<std::size_t>(i)] = true;
    }
    expect(wanted.contains(span.field), "a field twice");
    const int value = wanted.extract(span.field).mapped(), written = number_of(points, span);
    expect(written == -1 || written == value || (span.field == 'y' && written == value % 100),
           fmt::format("'{}': {} is {}", row.source, span.field, row.target));
  }
}

}  // namespace

void fuzz_one(std::string_view input) {
  fuzz::Choices choices(input);
  if (choices.one_in(4)) {
    const std::string list(choices.rest());
    if (list.find("all") != list.npos) return;  // takes long
    const auto read = fuzz::accepted([&] { return dates::parse_locales(list); });
    if (read)
      expect(
          !read->empty() && dates::parse_locales(fmt::format("{}", fmt::join(*read, ","))) == *read,
          "parse_locales: others come back");
    return;
  }
  const dates::Generator& generator = generator_of(choices.byte() + 256u * choices.byte());
  const dates::Below below = [&](std::uint64_t n) -> std::uint64_t {
    return (choices.byte() + 256u * (n > 256 ? choices.byte() : 0)) % n;
  };
  do {
    check_row(generator.sample(below));
  } while (!choices.done());
}
