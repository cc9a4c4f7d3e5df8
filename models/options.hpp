// Descriptions of the fields of an options struct. Command lines, config files, --help, checkpoints
// and range checks all use the same description.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::models {

/// Description of one option, bound to a field of a struct, which must outlive it.
struct Option {
  std::string name, help;
  std::string type;                       ///< type of the value in --help: NUMBER, NAME, TEXT, ...
  std::vector<std::string> choices = {};  ///< allowed values; empty: any value of the type
  std::function<std::string()> get = {};  ///< reads the field
  /// Sets the field. Throws if the text is not one of the choices or not a number in range. In
  /// choices, "_" and "-" are equivalent.
  std::function<void(const std::string&)> set = {};
  bool is_flag = false;    ///< has no value on the command line; its presence means "yes"
  std::string needs = {};  ///< the setting that it requires, such as "score multi-head"
  bool has_effect = true;  ///< whether that setting was present when options_of was called
  std::string group = {};  ///< heading in --help
};

/// The options of a struct, in the order of --help. Each options struct has a function
///     OptionList options_of(LuongOptions& options);
/// next to its definition, which defines the names, ranges and help texts.
using OptionList = std::vector<Option>;

namespace detail {

/// An option with the values `names`; get returns and set takes an index into them.
Option choice(std::string name, std::string help, std::vector<std::string> names,
              std::function<std::size_t()> get, std::function<void(std::size_t)> set);

}  // namespace detail

/// An option with a number in [low, high], of type double, Index or std::uint64_t.
template <class T>
Option option(std::string name, std::string help, T& value, double low, double high);
/// An option with any text. --help shows `type`.
Option option(std::string name, std::string help, std::string& value, std::string type = "TEXT");
Option option(std::string name, std::string help, std::filesystem::path& value,
              std::string type = "FILE");
/// An option with a comma-separated list of integers >= low.
Option option(std::string name, std::string help, std::vector<Index>& values, Index low);

/// An option with the values of an enum, whose names are given in the order of its values 0, 1,
/// .... For bool the names are "no" and "yes".
template <class T>
Option choice(std::string name, std::string help, T& value, std::vector<std::string> names) {
  return detail::choice(
      std::move(name), std::move(help), std::move(names),
      [&value] { return static_cast<std::size_t>(value); },
      [&value](std::size_t i) { value = static_cast<T>(i); });
}
inline Option choice(std::string name, std::string help, bool& value) {
  return choice(std::move(name), std::move(help), value, {"no", "yes"});
}
/// A bool option without a value on the command line; its presence means true.
Option flag(std::string name, std::string help, bool& value);

/// The option, which requires the setting `needs`. `has_effect` tells whether that setting is
/// present. If it is not, giving the option is an error.
Option only_with(std::string needs, bool has_effect, Option option);

/// The option of that name, or nullptr.
const Option* find(const OptionList& options, const std::string& name);
/// Appends the options of a nested struct. Options without a heading get the heading `group`.
void append(OptionList& options, OptionList part, const std::string& group = {});
/// Names and values, such as "hidden" -> "256".
std::map<std::string, std::string> to_map(const OptionList& options);
/// Sets all options from a map. Throws if one is missing or invalid; ignores other entries.
void set_from(const OptionList& options, const std::map<std::string, std::string>& map);

}  // namespace attune::models
