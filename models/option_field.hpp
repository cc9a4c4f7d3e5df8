// Options as text: what command lines, configuration files and checkpoints need to know of a struct
// of options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/tensor/check.hpp>

namespace attune::models {

/// An option of a struct of them.
template <class Options>
struct OptionField {
  std::string name, help;
  std::vector<std::string> choices;  ///< empty: a number, or any text
  std::string type;                  ///< NUMBER, NAME or TEXT
  std::function<std::string(const Options&)> get;
  /// Throws when the text is not one of the choices, or not a number in range. In choices, _ is as
  /// good as -.
  std::function<void(Options&, const std::string&)> set;
  bool is_flag = false;  ///< given without a value, which is then "yes"
  std::string needs =
      {};  ///< what it has no effect without, such as "score multi-head"; empty: it has
  std::function<bool(const Options&)> has_effect = {};  ///< set where `needs` is
};

namespace detail {

/// Names with one kind of hyphen.
std::string hyphenated(std::string text);
void parse(const std::string& name, const std::string& text, double low, double high, double& to);
void parse(const std::string& name, const std::string& text, double low, double high,
           std::int64_t& to);
void parse(const std::string& name, const std::string& text, double low, double high,
           std::uint64_t& to);
/// In the shortest form that reads back as the same number.
std::string text_of(double value);
[[noreturn]] void fail_choice(const std::string& name, const std::string& text,
                              std::span<const std::string> choices);

}  // namespace detail

/// An option that is a number in [low, high]. `member` is a pointer to a member of the options, or
/// a function that returns a reference to one.
template <class Options, class Member>
OptionField<Options> number_field(std::string name, std::string help, Member member, double low,
                                  double high) {
  using T = std::remove_cvref_t<std::invoke_result_t<Member, Options&>>;
  const auto set = [=](Options& o, const std::string& text) {
    detail::parse(name, text, low, high, std::invoke(member, o));
  };
  const auto get = [=](Options o) {
    if constexpr (std::is_integral_v<T>) return std::to_string(std::invoke(member, o));
    return detail::text_of(static_cast<double>(std::invoke(member, o)));
  };
  return {name, std::move(help), {}, "NUMBER", get, set};
}

/// The option is one of some named values.
template <class Options, class T, class Member>
OptionField<Options> choice_field(std::string name, std::string help, Member member,
                                  std::vector<std::pair<T, std::string>> names) {
  std::vector<std::string> choices;
  for (auto& [value, text] : names) choices.push_back(text = detail::hyphenated(text));
  const auto set = [=](Options& o, const std::string& text) {
    for (const auto& [value, own] : names) {
      if (detail::hyphenated(text) == own) return void(std::invoke(member, o) = value);
    }
    detail::fail_choice(name, text, choices);
  };
  const auto get = [=](Options o) {
    const auto at =
        std::ranges::find(names, std::invoke(member, o), [](auto& n) { return n.first; });
    return at == names.end() ? std::string("?") : at->second;
  };
  return {name, std::move(help), choices, "NAME", get, set};
}

/// The option has one of two values: the second, "yes", where it is given.
template <class Options, class T, class Member>
OptionField<Options> flag_field(std::string name, std::string help, Member member, T no, T yes) {
  auto field = choice_field<Options, T>(std::move(name), std::move(help), member,
                                        {{no, "no"}, {yes, "yes"}});
  field.is_flag = true;
  return field;
}

/// The option has an effect only where `has_effect`; `needs` says when that is.
template <class Options>
OptionField<Options> only_with(std::string needs, std::function<bool(const Options&)> has_effect,
                               OptionField<Options> field) {
  field.needs = std::move(needs), field.has_effect = std::move(has_effect);
  return field;
}

/// The option is any text.
template <class Options, class Member>
OptionField<Options> text_field(std::string name, std::string help, Member member) {
  const auto set = [=](Options& o, const std::string& text) { std::invoke(member, o) = text; };
  const auto get = [=](Options o) -> std::string { return std::invoke(member, o); };
  return {name, std::move(help), {}, "TEXT", get, set};
}

/// Sets an option by name. Throws when there is none of that name, and as its `set` does.
template <class Options>
void set_field(std::span<const OptionField<Options>> fields, Options& options,
               const std::string& name, const std::string& value) {
  for (const auto& field : fields) {
    if (field.name == name) return field.set(options, value);
  }
  fail("options", "there is no '" + name + "'");
}

/// "hidden" -> "256" and so on: all fields.
template <class Options>
std::map<std::string, std::string> fields_to_map(std::span<const OptionField<Options>> fields,
                                                 const Options& options) {
  std::map<std::string, std::string> map;
  for (const auto& field : fields) map[field.name] = field.get(options);
  return map;
}

/// The reverse of fields_to_map. Throws when a field is missing or not understood; ignores other
/// entries. `younger` names fields that older files do not have: if missing, they keep their value.
template <class Options>
void set_fields_from(std::span<const OptionField<Options>> fields, Options& options,
                     const std::map<std::string, std::string>& map,
                     std::initializer_list<std::string_view> younger = {}) {
  for (const auto& field : fields) {
    if (const auto at = map.find(field.name); at != map.end()) {
      field.set(options, at->second);
    } else if (std::ranges::find(younger, field.name) == younger.end()) {
      fail("options", "there is no '" + field.name + "'");
    }
  }
}

}  // namespace attune::models
