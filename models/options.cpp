#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/options.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {

std::string with_hyphens(std::string text) {
  std::ranges::replace(text, '_', '-');
  return text;
}

namespace {

/// A bound as T. Clamps it to the largest T, which double cannot represent.
template <class T>
T bound(double value) {
  using Limits = std::numeric_limits<T>;
  constexpr T most = Limits::has_infinity ? Limits::infinity() : Limits::max();
  return value >= static_cast<double>(most) ? most : static_cast<T>(value);
}

template <class T>
bool is_in_range(const Option& option, T value) {
  return value >= bound<T>(option.low) && value <= bound<T>(option.high);
}

template <class T>
T number(const Option& option, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !is_in_range(option, value))
    fail(option.name, "{} is not a {} from {} to {}", in_quotes(text),
         std::is_integral_v<T> ? "whole number" : "number", bound<T>(option.low),
         bound<T>(option.high));
  return value + T{};  // -0 is 0
}

std::vector<Index> numbers(const Option& option, const std::string& text) {
  std::vector<Index> all;
  for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find(',', begin), text.size());
    all.push_back(number<Index>(option, text.substr(begin, end - begin)));
  }
  return all;
}

std::size_t choice_of(const Option& option, const std::string& text) {
  const auto at = std::ranges::find(option.choices, with_hyphens(text), with_hyphens);
  if (at != option.choices.end()) return static_cast<std::size_t>(at - option.choices.begin());
  std::vector<std::string> choices;
  for (const std::string& choice : option.choices) choices.push_back(with_hyphens(choice));
  fail(option.name, "{} is not one of {}", in_quotes(text), fmt::join(choices, ", "));
}

template <class T>
constexpr bool is_paths = std::is_same_v<T, std::vector<std::filesystem::path>>;

template <class T>
std::string get(const Option& option, const void* at) {
  const T& field = *static_cast<const T*>(at);
  if constexpr (std::is_same_v<T, bool>) {
    return with_hyphens(option.choices[field ? 1 : 0]);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return option.choices.empty() ? field : with_hyphens(field);
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return field.string();
  } else if constexpr (std::is_same_v<T, std::vector<Index>>) {
    return fmt::format("{}", fmt::join(field, ","));
  } else if constexpr (is_paths<T>) {
    return "";
  } else {
    return fmt::format("{}", field);
  }
}

template <class T>
void set(const Option& option, void* at, const std::string& text) {
  T& field = *static_cast<T*>(at);
  if constexpr (std::is_same_v<T, bool>) {
    field = choice_of(option, text) != 0;
  } else if constexpr (std::is_same_v<T, std::string>) {
    field = option.choices.empty() ? text : option.choices[choice_of(option, text)];
  } else if constexpr (std::is_arithmetic_v<T>) {
    field = number<T>(option, text);
  } else if constexpr (std::is_same_v<T, std::vector<Index>>) {
    field = numbers(option, text);
  } else if constexpr (is_paths<T>) {
    field.emplace_back(text);
  } else {
    field = text;
  }
}

/// Other types have no range.
template <class T>
void validate(const Option& option, const void* at) {
  const T& field = *static_cast<const T*>(at);
  if constexpr (std::is_same_v<T, std::string>) {
    if (!option.choices.empty()) choice_of(option, field);
  } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
    if (!is_in_range(option, field)) number<T>(option, fmt::format("{}", field));
  }
}

/// The value of an enum. Throws if it has no name.
std::size_t value_of(const Option& option, const void* at) {
  int value;
  std::memcpy(&value, at, sizeof value);
  if (value < 0 || value >= std::ssize(option.choices))
    fail(option.name, "{} is not one of {}", value, fmt::join(option.choices, ", "));
  return static_cast<std::size_t>(value);
}

}  // namespace

namespace detail {

template <class T>
const FieldAccess& field_access() {
  static constexpr FieldAccess access{get<T>, set<T>, validate<T>};
  return access;
}
template const FieldAccess& field_access<double>();
template const FieldAccess& field_access<Index>();
template const FieldAccess& field_access<std::uint64_t>();
template const FieldAccess& field_access<std::string>();
template const FieldAccess& field_access<std::filesystem::path>();
template const FieldAccess& field_access<std::vector<Index>>();
template const FieldAccess& field_access<std::vector<std::filesystem::path>>();
template const FieldAccess& field_access<bool>();

template <>
const FieldAccess& field_access<Enumeration>() {
  static constexpr FieldAccess access{
      [](const Option& option, const void* at) {
        return with_hyphens(option.choices[value_of(option, at)]);
      },
      [](const Option& option, void* at, const std::string& text) {
        const int value = static_cast<int>(choice_of(option, text));
        std::memcpy(at, &value, sizeof value);
      },
      [](const Option& option, const void* at) { static_cast<void>(value_of(option, at)); }};
  return access;
}

}  // namespace detail

Option::Option(std::string_view n, std::string_view h, std::string_view t,
               const detail::FieldAccess& a, const void* field)
    : name(n), help(h), type(t), access(&a), at(reinterpret_cast<std::uintptr_t>(field)) {}
std::string Option::get(const void* object) const {
  return access->get(*this, static_cast<const char*>(object) + at);
}
void Option::set(void* object, const std::string& text) const {
  access->set(*this, static_cast<char*>(object) + at, text);
}
bool Option::has_effect(const void* object) const {
  return !present || present(static_cast<const char*>(object) + owner);
}
Option::Option(const Option&) = default;
Option::Option(Option&&) noexcept = default;
Option& Option::operator=(const Option&) = default;
Option& Option::operator=(Option&&) noexcept = default;
Option::~Option() = default;

Option detail::with_range(Option option, double low, double high) {
  option.low = low, option.high = high;
  return option;
}

Option detail::with_choices(Option option, std::vector<std::string> choices, bool is_flag) {
  option.choices = std::move(choices), option.is_flag = is_flag;
  return option;
}

const Option* find(const OptionList& options, const std::string& name) {
  const auto at = std::ranges::find(options, name, &Option::name);
  return at == options.end() ? nullptr : &*at;
}

void append(OptionList& options, OptionList part, const std::string& group) {
  for (Option& one : part) {
    if (one.group.empty()) one.group = group;
    options.push_back(std::move(one));
  }
}

std::string entry_of(const std::map<std::string, std::string>& map, const std::string& name) {
  const auto at = map.find(name);
  if (at == map.end()) fail("options", "'" + name + "' is missing");
  return at->second;
}

}  // namespace attune::models
