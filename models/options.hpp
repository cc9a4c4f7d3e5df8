// Tables of the fields of an options struct. Command lines, config files, --help, metadata of
// checkpoints and range checks all use the same table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::models {

struct Option;

namespace detail {

/// Access to fields of one type.
struct FieldAccess {
  std::string (*get)(const Option& option, const void* field);
  void (*set)(const Option& option, void* field, const std::string& text);
  void (*validate)(const Option& option, const void* field);
};
struct Enumeration;  // the T of field_access for every enum whose size is that of int
/// For double, Index, std::uint64_t, std::string (if there are choices, one of them), path, lists of
/// Index, lists of paths (to which each value is appended), bool, and Enumeration.
template <class T>
const FieldAccess& field_access();

}  // namespace detail

/// The description of one field of an options struct.
struct Option {
  std::string name, help;
  std::string type;  ///< type of the value in --help: NUMBER, NAME, TEXT, ...
  const detail::FieldAccess* access;
  std::uintptr_t at;                 ///< address in the prototype; in a table, the offset
  double low = 0, high = 0;          ///< range of numbers
  std::vector<std::string> choices;  ///< allowed values, where "_" and "-" are equivalent
  bool is_flag = false;              ///< has no value on the command line; its presence means "yes"
  std::string group;                 ///< heading in --help
  std::string needs;                 ///< the setting without which it has no effect
  std::function<bool(const void* owner)> present = {};  ///< whether that setting is present
  std::uintptr_t owner = 0;  ///< as `at`, of the struct that `present` reads

  Option(std::string_view name, std::string_view help, std::string_view type,
         const detail::FieldAccess& access, const void* field);
  /// The value in an object of the struct that the option's table belongs to, as text.
  std::string get(const void* object) const;
  /// Throws, and changes nothing, if the text is not one of the choices or not a number in range.
  void set(void* object, const std::string& text) const;
  /// Whether the setting that the option needs is present.
  bool has_effect(const void* object) const;
  // Defined in options.cpp: programs that list many options compile in less time.
  Option(const Option&);
  Option(Option&&) noexcept;
  Option& operator=(const Option&);
  Option& operator=(Option&&) noexcept;
  ~Option();
};
using OptionList = std::vector<Option>;

namespace detail {
Option with_range(Option option, double low, double high);
Option with_choices(Option option, std::vector<std::string> choices, bool is_flag);
}  // namespace detail

/// An option with any text or path. --help shows `type`.
template <class T>
Option option(std::string_view name, std::string_view help, T& field,
              std::string_view type = std::is_same_v<T, std::string> ? "TEXT" : "FILE") {
  using Type = std::conditional_t<std::is_enum_v<T>, detail::Enumeration, T>;
  static_assert(!std::is_enum_v<T> || sizeof(T) == sizeof(int));
  return {name, help, type, detail::field_access<Type>(), &field};
}
/// An option with a number in [low, high], of type double, Index or std::uint64_t, or with a
/// comma-separated list of such integers.
template <class T>
Option option(std::string_view name, std::string_view help, T& field, double low, double high) {
  const char* const type = std::is_arithmetic_v<T> ? "NUMBER" : "LIST";
  return detail::with_range(option(name, help, field, type), low, high);
}
/// An option with the values of a bool or an enum, whose names are given in the order of its values
/// 0, 1, ..., or with one of these names as a string.
template <class T>
Option choice(std::string_view name, std::string_view help, T& field,
              std::vector<std::string> names = {"no", "yes"}) {
  return detail::with_choices(option(name, help, field, "NAME"), std::move(names), false);
}
/// The same without a value on the command line; its presence means "yes".
template <class T>
Option flag(std::string_view name, std::string_view help, T& field) {
  return detail::with_choices(option(name, help, field, "NAME"), {"no", "yes"}, true);
}
/// Those of these options that are in the list have an effect only with the setting `needs`: if
/// present(owner) is true. Returns the list.
template <class Owner, class Present>
OptionList& only_with(OptionList& options, std::initializer_list<std::string_view> names,
                      const std::string& needs, const Owner& owner, Present present) {
  for (Option& one : options) {
    for (const std::string_view name : names) {
      if (one.name != name) continue;
      one.needs = needs, one.owner = reinterpret_cast<std::uintptr_t>(&owner);
      one.present = [=](const void* o) -> bool { return present(*static_cast<const Owner*>(o)); };
    }
  }
  return options;
}
/// The option of that name, or nullptr.
const Option* find(const OptionList& options, const std::string& name);
const Option* find(OptionList&& options, const std::string& name) = delete;
/// Appends options. Those without a heading get the heading `group`.
void append(OptionList& options, OptionList part, const std::string& group = {});

/// The text of a choice in --help: "_" is replaced by "-".
std::string with_hyphens(std::string text);
/// The entry of a map. Throws if there is none.
std::string entry_of(const std::map<std::string, std::string>& map, const std::string& name);

/// The options of a struct O, in the order of --help. Each options struct has a function
///     OptionList fields_of(LuongOptions& prototype);
/// next to its definition, which describes its fields; `options_of` makes a table of it.
template <class O>
class OptionTable : public OptionList {
 public:
  /// A table for structs that equal the prototype where fields_of(prototype) depends on it.
  explicit OptionTable(O prototype) : OptionTable(fields_of(prototype), prototype) {}
  /// A table of these fields of a prototype.
  OptionTable(OptionList fields, const O& prototype) : OptionList(std::move(fields)) {
    for (Option& one : *this) {
      one.at -= reinterpret_cast<std::uintptr_t>(&prototype);
      if (one.present) one.owner -= reinterpret_cast<std::uintptr_t>(&prototype);
    }
  }

  // As in Option.
  std::string get(const O& o, const Option& one) const { return one.get(&o); }
  void set(O& o, const Option& one, const std::string& text) const { one.set(&o, text); }
  bool has_effect(const O& o, const Option& one) const { return one.has_effect(&o); }
  /// Throws if a field is out of range; the message names the option.
  void validate(const O& o) const {
    for (const Option& one : *this)
      one.access->validate(one, reinterpret_cast<const char*>(&o) + one.at);
  }
};

/// The table of the options of O.
template <class O>
const OptionTable<O>& options_of(const O&) {
  static const OptionTable<O> table{O()};
  return table;
}

/// Names and values of all options, such as "hidden" -> "256".
template <class O>
std::map<std::string, std::string> to_map(const O& o) {
  const OptionTable<O>& table = options_of(o);
  std::map<std::string, std::string> map;
  for (const Option& one : table) map[one.name] = table.get(o, one);
  return map;
}
/// Sets all options from a map. Throws if one is missing or invalid; ignores other entries.
template <class O>
void set_from(O& o, const std::map<std::string, std::string>& map) {
  const OptionTable<O>& table = options_of(o);
  for (const Option& one : table) table.set(o, one, entry_of(map, one.name));
}

}  // namespace attune::models
