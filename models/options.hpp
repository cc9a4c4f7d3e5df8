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
/// beside its definition, which is all that names, ranges and help texts come from.
using OptionList = std::vector<Option>;

/// A number in [low, high] of type double, Index or std::uint64_t.
template <class T>
Option option(std::string name, std::string help, T& value, double low, double high);
/// Any text; `type` is what --help calls it.
Option option(std::string name, std::string help, std::string& value, std::string type = "TEXT");
Option option(std::string name, std::string help, std::filesystem::path& value,
              std::string type = "FILE");
/// A list with commas between its entries: whole numbers from `low` on.
Option option(std::string name, std::string help, std::vector<Index>& values, Index low);

/// One of some values by name: of an enumeration, names, or bool.
template <class T>
Option choice(std::string name, std::string help, T& value,
              const std::vector<std::pair<const char*, T>>& named);
/// "no" or "yes".
Option choice(std::string name, std::string help, bool& value);
/// The same, given without a value: it turns `value` over to `given`.
Option flag(std::string name, std::string help, bool& value, bool given = true);

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

namespace detail {

/// Where `text` is in `choices`, of which both are hyphenated. Throws where it is none of them.
std::size_t index_of(const std::string& name, const std::string& text,
                     const std::vector<std::string>& choices);
std::string hyphenated(std::string text);

}  // namespace detail

template <class T>
Option choice(std::string name, std::string help, T& value,
              const std::vector<std::pair<const char*, T>>& named) {
  Option option{.name = std::move(name), .help = std::move(help), .type = "NAME"};
  std::vector<T> values;
  for (const auto& [text, one] : named) {
    option.choices.push_back(detail::hyphenated(text));
    values.push_back(one);
  }
  option.get = [&value, values, choices = option.choices] {
    std::size_t at = 0;
    while (at < values.size() && values[at] != value) ++at;
    return at < values.size() ? choices[at] : std::string("?");
  };
  option.set = [&value, values, name = option.name,
                choices = option.choices](const std::string& text) {
    value = values[detail::index_of(name, text, choices)];
  };
  return option;
}

}  // namespace attune::models
