#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/options.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {
namespace {

/// Formats a bound, with all digits if T is an integer. Clamps it to the largest T, which double
/// cannot represent.
template <class T>
std::string bound(double value) {
  if constexpr (!std::is_integral_v<T>) return fmt::format("{}", value);
  constexpr T most = std::numeric_limits<T>::max();
  return fmt::format("{}", value >= static_cast<double>(most) ? most : static_cast<T>(value));
}

template <class T>
T number(const std::string& name, const std::string& text, double low, double high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto real = static_cast<double>(value);
  if (error != std::errc() || end != text.data() + text.size() || !(real >= low && real <= high))
    fail(name, "{} is not a {} from {} to {}", in_quotes(text),
         std::is_integral_v<T> ? "whole number" : "number", bound<T>(low), bound<T>(high));
  return value;
}

}  // namespace

template <class T>
Option option(std::string name, std::string help, T& value, double low, double high) {
  Option option{.name = std::move(name), .help = std::move(help), .type = "NUMBER"};
  option.get = [&value] { return fmt::format("{}", value); };
  option.set = [&value, name = option.name, low, high](const std::string& text) {
    value = number<T>(name, text, low, high) + T{};  // -0 is 0
  };
  return option;
}
template Option option(std::string, std::string, double&, double, double);
template Option option(std::string, std::string, Index&, double, double);
template Option option(std::string, std::string, std::uint64_t&, double, double);

Option option(std::string name, std::string help, std::string& value, std::string type) {
  Option option{.name = std::move(name), .help = std::move(help), .type = std::move(type)};
  option.get = [&value] { return value; };
  option.set = [&value](const std::string& text) { value = text; };
  return option;
}

Option option(std::string name, std::string help, std::filesystem::path& value, std::string type) {
  Option option{.name = std::move(name), .help = std::move(help), .type = std::move(type)};
  option.get = [&value] { return value.string(); };
  option.set = [&value](const std::string& text) { value = text; };
  return option;
}

Option option(std::string name, std::string help, std::vector<Index>& values, Index low) {
  Option option{.name = std::move(name), .help = std::move(help), .type = "LIST"};
  option.get = [&values] { return fmt::format("{}", fmt::join(values, ",")); };
  option.set = [&values, name = option.name, low](const std::string& text) {
    std::vector<Index> all;
    for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
      end = std::min(text.find(',', begin), text.size());
      all.push_back(
          number<Index>(name, text.substr(begin, end - begin), static_cast<double>(low), 1e9));
    }
    values = std::move(all);
  };
  return option;
}

Option detail::choice(std::string name, std::string help, std::vector<std::string> names,
                      std::function<std::size_t()> get, std::function<void(std::size_t)> set) {
  for (std::string& one : names) std::ranges::replace(one, '_', '-');
  Option option{.name = std::move(name), .help = std::move(help), .type = "NAME"};
  option.choices = std::move(names);
  option.get = [get, choices = option.choices] { return choices.at(get()); };
  option.set = [set, name = option.name, choices = option.choices](std::string text) {
    std::ranges::replace(text, '_', '-');
    const auto at = std::ranges::find(choices, text);
    if (at == choices.end())
      fail(name, "{} is not one of {}", in_quotes(text), fmt::join(choices, ", "));
    set(static_cast<std::size_t>(at - choices.begin()));
  };
  return option;
}

Option flag(std::string name, std::string help, bool& value) {
  Option option = choice(std::move(name), std::move(help), value);
  option.is_flag = true;
  return option;
}

Option only_with(std::string needs, bool has_effect, Option option) {
  std::ranges::replace(needs, '_', '-');
  option.needs = std::move(needs), option.has_effect = has_effect;
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

std::map<std::string, std::string> to_map(const OptionList& options) {
  std::map<std::string, std::string> map;
  for (const Option& one : options) map[one.name] = one.get();
  return map;
}

void set_from(const OptionList& options, const std::map<std::string, std::string>& map) {
  for (const Option& one : options) {
    const auto at = map.find(one.name);
    if (at == map.end()) fail("options", "'" + one.name + "' is missing");
    one.set(at->second);
  }
}

}  // namespace attune::models
