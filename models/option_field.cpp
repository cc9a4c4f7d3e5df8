#include <charconv>
#include <limits>

#include <fmt/ranges.h>

#include <attune/models/option_field.hpp>

namespace attune::models::detail {
namespace {

/// With all digits where T is whole. The double may be above all T: the largest is no double.
template <class T>
std::string bound(double value) {
  if constexpr (!std::is_integral_v<T>) return fmt::format("{}", value);
  constexpr T most = std::numeric_limits<T>::max();
  return fmt::format("{}", value >= static_cast<double>(most) ? most : static_cast<T>(value));
}

}  // namespace

template <class T>
void parse(const std::string& name, const std::string& text, double low, double high, T& to) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto real = static_cast<double>(value);
  if (error != std::errc() || end != text.data() + text.size() || !(real >= low && real <= high)) {
    fail(name, fmt::format("{} is not a {} from {} to {}", in_quotes(text),
                           std::is_integral_v<T> ? "whole number" : "number", bound<T>(low),
                           bound<T>(high)));
  }
  to = value;
}
template void parse(const std::string&, const std::string&, double, double, double&);
template void parse(const std::string&, const std::string&, double, double, std::int64_t&);
template void parse(const std::string&, const std::string&, double, double, std::uint64_t&);

std::string hyphenated(std::string_view text) {
  std::string hyphens(text);
  std::ranges::replace(hyphens, '_', '-');
  return hyphens;
}

template <class T>
std::string text_of(T value) {
  return fmt::format("{}", value);
}
template std::string text_of(double);
template std::string text_of(std::int64_t);
template std::string text_of(std::uint64_t);

std::size_t index_of(const std::string& name, const std::string& text,
                     std::span<const std::string> choices) {
  const auto at = std::ranges::find(choices, hyphenated(text));
  if (at != choices.end()) return static_cast<std::size_t>(at - choices.begin());
  fail(name, fmt::format("{} is not one of {}", in_quotes(text), fmt::join(choices, ", ")));
}

}  // namespace attune::models::detail
