#include "generator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/uenum.h>
#include <unicode/uloc.h>

#include <attune/tensor/check.hpp>

#include "date_writer.hpp"

namespace attune::dates {
namespace {

constexpr int kDays = 36525;  // 1970-01-01 .. 2069-12-31

std::string iso8601(int day) {
  using namespace std::chrono;
  const year_month_day date(sys_days(1970y / January / 1) + days(day));
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

/// Random numbers for what the seed decides: a counter, hashed by the finaliser of SplitMix64
/// (Steele, Lea and Flood, 2014). The remainder favours small numbers by n / 2⁶⁴ at most.
class SeededStream {
 public:
  SeededStream(std::uint64_t seed, std::uint64_t stream) : key_(hash(seed) ^ hash(~stream)) {}

  std::uint64_t operator()(std::uint64_t n) { return hash(key_ + counter_++) % n; }

 private:
  static std::uint64_t hash(std::uint64_t x) {
    x = (x + 1) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  std::uint64_t key_, counter_ = 0;
};

enum Stream : std::uint64_t { kHeldOutDays, kValidationSources };

/// All days in random order: the first k of them are a random set of k days, for every k.
std::vector<int> shuffled_days(std::uint64_t seed) {
  std::vector<int> days(kDays);
  std::iota(days.begin(), days.end(), 0);
  SeededStream below(seed, kHeldOutDays);
  for (int i = 0; i + 1 < kDays; ++i) std::swap(days[i], days[i + below(kDays - i)]);
  return days;
}

/// 38 days with every month, weekday, day of the month and digit of a year among them.
std::vector<int> probe_days() {
  constexpr int kStep = 970;  // found by trying
  std::vector<int> days;
  for (int day = 0; day < kDays; day += kStep) days.push_back(day);
  return days;
}

std::set<std::string> read_known_locales() {
  UErrorCode status = U_ZERO_ERROR;
  UEnumeration* names = uloc_openAvailableByType(ULOC_AVAILABLE_WITH_LEGACY_ALIASES, &status);
  std::set<std::string> known;
  while (const char* name = uenum_next(names, nullptr, &status)) known.insert(name);
  uenum_close(names);
  check_icu(status, "the list of locales");
  return known;
}

/// ICU's spelling of a locale's name, or nothing if it is not in ICU's list.
std::optional<std::string> known_locale(const std::string& name) {
  static const std::set<std::string> known = read_known_locales();
  std::array<char, ULOC_FULLNAME_CAPACITY> spelling;
  UErrorCode status = U_ZERO_ERROR;
  uloc_getName(name.c_str(), spelling.data(), spelling.size(), &status);
  if (U_FAILURE(status) || status == U_STRING_NOT_TERMINATED_WARNING) return std::nullopt;
  if (!known.contains(spelling.data())) return std::nullopt;
  return spelling.data();
}

/// Calls `use` with everything that a locale makes of the probe days in one set of digits.
template <typename Use>
void probe(const DateWriter& writer, std::size_t digits, Use use) {
  for (int day : probe_days()) {
    for (std::size_t pattern = 0; pattern < kPatternCount; ++pattern) {
      const Writing writing = writer.write(day, digits, pattern);
      for (Variant variant : kVariants) use(writer.vary(writing, variant).text);
    }
  }
}

/// The same for locales that write all dates alike in their own digits (and so in Latin ones).
std::size_t handwriting(const DateWriter& writer) {
  std::string dates;
  probe(writer, 0, [&](icu::UnicodeString text) { text.append(u'\n').toUTF8String(dates); });
  return std::hash<std::string>()(dates);
}

std::vector<std::string> find_all_locales() {
  std::vector<std::string> locales;
  std::set<std::size_t> seen;
  for (int32_t i = 0; i < uloc_countAvailable(); ++i) {
    const std::string name = uloc_getAvailable(i);
    const DateWriter writer(name);
    if (writer.has_month_names() && seen.insert(handwriting(writer)).second) {
      locales.push_back(name);
    }
  }
  return locales;
}

const std::vector<std::string>& all_locales() {
  static const std::vector<std::string> locales = find_all_locales();  // takes most of a second
  return locales;
}

std::size_t draw(const Below& below, std::size_t n) {
  const std::uint64_t choice = below(n);
  if (choice >= n) {
    throw std::out_of_range(fmt::format("Generator: below({}) returned {}", n, choice));
  }
  return choice;
}

}  // namespace

struct Generator::State {
  explicit State(const GeneratorOptions& options);

  const DateWriter& writer(std::size_t locale) const;
  Row row(int day, const Below& below) const;

  std::uint64_t seed;
  std::vector<std::string> locales;
  std::vector<int> held_out, training;  // days, ascending

  mutable std::vector<std::unique_ptr<DateWriter>> writers;  // by locale, empty until it is used
};

Generator::State::State(const GeneratorOptions& options) : seed(options.seed) {
  if (options.locales.empty()) throw std::invalid_argument("Generator: no locales");
  for (const std::string& name : options.locales) {
    const std::optional<std::string> locale = known_locale(name);
    if (!locale) {
      throw std::invalid_argument(fmt::format("Generator: '{}' is not a locale ICU knows", name));
    }
    locales.push_back(*locale);
  }
  writers.resize(locales.size());

  if (options.held_out < 0 || options.held_out >= kDays) {
    throw std::invalid_argument(
        fmt::format("Generator: held_out is {}, expected 0 to {}", options.held_out, kDays - 1));
  }
  const std::vector<int> days = shuffled_days(seed);
  held_out.assign(days.begin(), days.begin() + options.held_out);
  training.assign(days.begin() + options.held_out, days.end());
  std::sort(held_out.begin(), held_out.end());
  std::sort(training.begin(), training.end());
}

const DateWriter& Generator::State::writer(std::size_t locale) const {
  if (!writers[locale]) writers[locale] = std::make_unique<DateWriter>(locales[locale]);
  return *writers[locale];
}

Row Generator::State::row(int day, const Below& below) const {
  const DateWriter& hand = writer(draw(below, locales.size()));
  const std::size_t digits = hand.digit_sets() == 1 ? 0 : draw(below, hand.digit_sets());
  const std::size_t pattern = draw(below, kPatternCount);
  const Variant variant = kVariants[draw(below, kVariants.size())];
  return to_row(hand.vary(hand.write(day, digits, pattern), variant), iso8601(day));
}

Generator::Generator(const GeneratorOptions& options)
    : state_(std::make_shared<const State>(options)) {}

Row Generator::sample(const Below& below) const {
  return state_->row(state_->training[draw(below, state_->training.size())], below);
}

std::vector<Row> Generator::validation() const {
  const Below below = SeededStream(state_->seed, kValidationSources);
  std::vector<Row> rows;
  for (int day : state_->held_out) rows.push_back(state_->row(day, below));
  return rows;
}

std::vector<std::string> Generator::alphabet() const {
  std::vector<bool> used(UCHAR_MAX_VALUE + 1);
  const auto use = [&](const icu::UnicodeString& text) {
    for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
      used[text.char32At(i)] = true;
    }
  };
  for (std::size_t locale = 0; locale < state_->locales.size(); ++locale) {
    const DateWriter& writer = state_->writer(locale);
    for (std::size_t digits = 0; digits < writer.digit_sets(); ++digits) probe(writer, digits, use);
  }

  std::vector<std::string> characters;
  for (UChar32 c = 0; c <= UCHAR_MAX_VALUE; ++c) {
    if (used[c]) characters.push_back(utf8(icu::UnicodeString(c)));
  }
  return characters;
}

std::vector<std::string> parse_locales(std::string_view list) {
  std::vector<std::string> locales;
  const auto add = [&](const std::string& locale) {
    if (std::find(locales.begin(), locales.end(), locale) == locales.end()) {
      locales.push_back(locale);
    }
  };
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(list.substr(begin, end - begin));
    if (name == "all") {
      for (const std::string& locale : all_locales()) add(locale);
    } else if (const std::optional<std::string> locale = known_locale(name)) {
      add(*locale);
    } else {
      fail("--locales", fmt::format("'{}' is not a locale ICU knows", name));
    }
    begin = end + 1;
  }
  return locales;
}

}  // namespace attune::dates
