// Options as text: what command lines, configuration files and checkpoints need to know of a struct
// of options.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/nn/attention.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

/// An option of a struct of them.
template <class Options>
struct OptionField {
  std::string name, help;
  std::vector<std::string> choices = {};  ///< empty: a number, or any text
  std::string type = {};                  ///< NUMBER, NAME or TEXT
  std::function<std::string(const Options&)> get = {};
  /// Throws when the text is not one of the choices, or not a number in range. In choices, _ is as
  /// good as -.
  std::function<void(Options&, const std::string&)> set = {};
  bool is_flag = false;  ///< given without a value, which is then "yes"
  /// What it has no effect without, such as "score multi-head"; empty: it always has.
  std::string needs = {};
  std::function<bool(const Options&)> has_effect = {};  ///< set where `needs` is
};

namespace detail {

/// Names with one kind of hyphen.
std::string hyphenated(std::string_view text);
/// Reads a number in [low, high] of type double, std::int64_t or std::uint64_t; throws on others.
template <class T>
void parse(const std::string& name, const std::string& text, double low, double high, T& to);
/// In the shortest form that reads back as the same number, of one of these types.
template <class T>
std::string text_of(T value);
/// The place of a choice. Throws where it is none of them.
std::size_t index_of(const std::string& name, const std::string& text,
                     std::span<const std::string> choices);

/// The value that `member` refers to. Accessors take options that are not const.
template <class Options, class Member>
const auto& value_of(const Options& options, const Member& member) {
  return std::invoke(member, const_cast<Options&>(options));
}

}  // namespace detail

/// An option that is a number in [low, high]. `member` is a pointer to a member of the options, or
/// a function that returns a reference to one.
template <class Options, class Member>
OptionField<Options> number_field(std::string_view name, std::string_view help, Member member,
                                  double low, double high) {
  OptionField<Options> field{
      .name = std::string(name), .help = std::string(help), .type = "NUMBER"};
  field.set = [name = field.name, member, low, high](Options& o, const std::string& text) {
    detail::parse(name, text, low, high, std::invoke(member, o));
  };
  field.get = [member](const Options& o) { return detail::text_of(detail::value_of(o, member)); };
  return field;
}

/// The option is one of some named values, which are of an enumeration, names, or bool.
template <class Options, class T, class Member>
OptionField<Options> choice_field(std::string_view name, std::string_view help, Member member,
                                  const std::vector<std::pair<T, const char*>>& names) {
  OptionField<Options> field{.name = std::string(name), .help = std::string(help), .type = "NAME"};
  std::vector<T> values;
  for (const auto& [value, text] : names) {
    values.push_back(value);
    field.choices.push_back(detail::hyphenated(text));
  }
  field.set = [name = field.name, choices = field.choices, values, member](
                  Options& o, const std::string& text) {
    std::invoke(member, o) = values[detail::index_of(name, text, choices)];
  };
  field.get = [choices = field.choices, values, member](const Options& o) {
    const T& value = detail::value_of(o, member);
    const auto at = std::ranges::find(values, value) - values.begin();
    if (at < std::ssize(values)) return choices[static_cast<std::size_t>(at)];
    if constexpr (std::is_same_v<T, std::string_view>) return detail::hyphenated(value);
    return std::string("?");
  };
  return field;
}

/// The option has one of two values: the second, "yes", where it is given.
template <class Options, class T, class Member>
OptionField<Options> flag_field(std::string_view name, std::string_view help, Member member, T no,
                                T yes) {
  auto field = choice_field<Options, T>(name, help, member, {{no, "no"}, {yes, "yes"}});
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
OptionField<Options> text_field(std::string_view name, std::string_view help, Member member) {
  OptionField<Options> field{.name = std::string(name), .help = std::string(help), .type = "TEXT"};
  field.set = [member](Options& o, const std::string& text) { std::invoke(member, o) = text; };
  field.get = [member](const Options& o) -> std::string { return detail::value_of(o, member); };
  return field;
}

/// Options of nn's layers, for any struct that has them.
template <class Options, class Member>
OptionField<Options> cell_field(const char* name, const char* help, Member member) {
  std::vector<std::pair<nn::Cell, const char*>> cells;
  for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::gru_reset_before, nn::Cell::lstm})
    cells.emplace_back(cell, nn::name_of(cell));
  return choice_field<Options, nn::Cell>(name, help, member, cells);
}

/// The fields of `score` (nn::ScoreOptions) and of `attention` (nn::AttentionOptions). Without
/// `with_direct` the scores are left out that need states and annotations of one size.
template <class Options>
std::vector<OptionField<Options>> attention_fields(bool with_direct = true) {
  using nn::ConcatForm, nn::Coverage, nn::Normalizer, nn::Window;
  using Score = nn::ScoreOptions;
  using Attention = nn::AttentionOptions;
  constexpr double largest = 1 << 16, longest = 1 << 20;
  const auto of_score = [](auto member) {
    return [member](Options & o) -> auto& { return o.score.*member; };
  };
  const auto of_attention = [](auto member) {
    return [member](Options & o) -> auto& { return o.attention.*member; };
  };
  const auto only_for = [](std::string_view kind, OptionField<Options> field) {
    return only_with<Options>(
        "score " + detail::hyphenated(kind),
        [kind](const Options& o) { return o.score.kind == kind; }, std::move(field));
  };
  std::vector<std::pair<std::string_view, const char*>> scores;
  for (const nn::ScoreKind& kind : nn::score_kinds())
    if (with_direct || !kind.direct) scores.emplace_back(kind.name, kind.name);
  const auto has_window = [](const Options& o) { return o.attention.window != Window::global; };
  return {
      choice_field<Options, std::string_view>("score", "how places are scored",
                                              of_score(&Score::kind), scores),
      number_field<Options>("attention",
                            "size A of the scores additive, concat, multi-head and location-aware",
                            of_score(&Score::attention), 1, largest),
      only_for("multi_head", number_field<Options>("heads", "heads of the score multi-head",
                                                   of_score(&Score::heads), 1, largest)),
      only_for("location", number_field<Options>("longest", "longest source of the score location",
                                                 of_score(&Score::longest), 1, longest)),
      only_for("location_aware",
               number_field<Options>("filters", "filters of the score location-aware",
                                     of_score(&Score::filters), 1, largest)),
      only_for("location_aware",
               number_field<Options>(
                   "radius", "places on each side of its own that a filter of location-aware sees",
                   of_score(&Score::radius), 0, longest)),
      only_for("concat", choice_field<Options, ConcatForm>(
                             "concat-form", "what the score concat does to the memory",
                             of_score(&Score::concat),
                             {{ConcatForm::full, "full"}, {ConcatForm::identity, "identity"}})),
      choice_field<Options, Coverage>("coverage", "whether the score uses the summed past weights",
                                      of_score(&Score::coverage),
                                      {{Coverage::none, "none"}, {Coverage::summed, "summed"}}),
      choice_field<Options, Window>("window", "which places a step may look at",
                                    of_attention(&Attention::window),
                                    {{Window::global, "global"},
                                     {Window::local_monotonic, "local-m"},
                                     {Window::local_predictive, "local-p"}}),
      only_with<Options>("a window", has_window,
                         number_field<Options>("half-width", "half width D of a window",
                                               of_attention(&Attention::half_width), 1, longest)),
      choice_field<Options, Normalizer>(
          "normalizer", "what turns scores into weights", of_attention(&Attention::normalizer),
          {{Normalizer::softmax, "softmax"}, {Normalizer::sparsemax, "sparsemax"}})};
}

/// Sets an option by name. Throws when there is none of that name, and as its `set` does.
template <class Options>
void set_field(std::span<const OptionField<Options>> fields, Options& options,
               const std::string& name, const std::string& value) {
  for (const auto& field : fields) {
    if (field.name == name) return field.set(options, value);
  }
  fail("options", "there is no " + in_quotes(name));
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
/// entries.
template <class Options>
void set_fields_from(std::span<const OptionField<Options>> fields, Options& options,
                     const std::map<std::string, std::string>& map) {
  for (const auto& field : fields) {
    const auto at = map.find(field.name);
    if (at == map.end()) fail("options", "there is no '" + field.name + "'");
    field.set(options, at->second);
  }
}

}  // namespace attune::models
