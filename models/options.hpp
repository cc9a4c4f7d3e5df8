// Options of a struct, each described once: command lines, config files, --help and checkpoints are
// derived from the description, and values are checked by it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::models {

/// One option, bound to the field that it reads and sets. It must not outlive the struct.
struct Option {
  std::string name, help;
  std::string type;                       ///< of the value, for --help: NUMBER, NAME, TEXT, ...
  std::vector<std::string> choices = {};  ///< empty: any value of the type
  std::function<std::string()> get = {};
  /// Throws where the text is not one of the choices, or not a number in range. In choices, _ is as
  /// good as -.
  std::function<void(const std::string&)> set = {};
  bool is_flag = false;    ///< given without a value, which is then "yes"
  std::string needs = {};  ///< what it has no effect without, such as "score multi-head"
  bool has_effect = true;  ///< with the other values as they were when it was listed
  std::string group = {};  ///< heading of --help
};

/// The options of a struct, in the order of --help. A struct has a function
///     OptionList options_of(LuongOptions& options);
/// next to its definition: the only source of names, ranges and help texts.
using OptionList = std::vector<Option>;

namespace detail {

/// `names[get()]`, and set(i) for the i-th of them.
Option choice(std::string name, std::string help, std::vector<std::string> names,
              std::function<std::size_t()> get, std::function<void(std::size_t)> set);

}  // namespace detail

/// A number in [low, high] of type double, Index or std::uint64_t.
template <class T>
Option option(std::string name, std::string help, T& value, double low, double high);
/// Any text; `type` is what --help calls it.
Option option(std::string name, std::string help, std::string& value, std::string type = "TEXT");
Option option(std::string name, std::string help, std::filesystem::path& value,
              std::string type = "FILE");
/// A list with commas between its entries: whole numbers from `low` on.
Option option(std::string name, std::string help, std::vector<Index>& values, Index low);

/// One of the values of an enumeration, whose names are given in their order; of bool, no and yes.
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
/// The same, given without a value: "yes".
Option flag(std::string name, std::string help, bool& value);

/// The option has an effect only where `has_effect`, which `needs` describes.
Option only_with(std::string needs, bool has_effect, Option option);

/// nullptr where there is no option of that name.
const Option* find(const OptionList& options, const std::string& name);
/// Appends the options of a part; gives those without a heading `group`.
void append(OptionList& options, OptionList part, const std::string& group = {});
/// "hidden" -> "256" and so on.
std::map<std::string, std::string> to_map(const OptionList& options);
/// The reverse. Throws where an option is missing, or as its `set` does; ignores other entries.
void set_from(const OptionList& options, const std::map<std::string, std::string>& map);

}  // namespace attune::models
