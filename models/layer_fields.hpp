// Options of nn's layers by name, for any struct that has them.
#pragma once

#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

template <class Options, class Member>
OptionField<Options> cell_field(const char* name, const char* help, Member member) {
  std::vector<std::pair<nn::Cell, const char*>> cells;
  for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::gru_reset_before, nn::Cell::lstm})
    cells.emplace_back(cell, nn::name_of(cell));
  return choice_field<Options, nn::Cell>(name, help, member, cells);
}

/// The kind of score, by its name in nn::score_kinds().
template <class Options>
OptionField<Options> score_field(bool with_direct) {
  OptionField<Options> field{.name = "score", .help = "how places are scored", .type = "NAME"};
  std::vector<std::string_view> kinds;
  for (const nn::ScoreKind& kind : nn::score_kinds()) {
    if (kind.direct && !with_direct) continue;
    kinds.push_back(kind.name);
    field.choices.push_back(detail::hyphenated(kind.name));
  }
  field.set = [choices = field.choices, kinds](Options& o, const std::string& text) {
    o.score.kind = kinds[detail::index_of("score", text, choices)];
  };
  field.get = [](const Options& o) { return detail::hyphenated(o.score.kind); };
  return field;
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
  const auto filters = [](Options & o) -> auto& { return o.score.location_aware.filters; };
  const auto radius = [](Options & o) -> auto& { return o.score.location_aware.radius; };
  const auto has_window = [](const Options& o) { return o.attention.window != Window::global; };
  return {
      score_field<Options>(with_direct),
      number_field<Options>("attention",
                            "size A of the scores additive, concat, multi-head and location-aware",
                            of_score(&Score::attention), 1, largest),
      only_for("multi_head", number_field<Options>("heads", "heads of the score multi-head",
                                                   of_score(&Score::heads), 1, largest)),
      only_for("location", number_field<Options>("longest", "longest source of the score location",
                                                 of_score(&Score::longest), 1, longest)),
      only_for("location_aware",
               number_field<Options>("filters", "filters of the score location-aware", filters, 1,
                                     largest)),
      only_for("location_aware",
               number_field<Options>(
                   "radius", "places on each side of its own that a filter of location-aware sees",
                   radius, 0, longest)),
      only_for("concat", choice_field<Options, ConcatForm>(
                             "concat-form", "what the score concat does to the memory",
                             of_score(&Score::concat),
                             {{ConcatForm::full, "full"}, {ConcatForm::identity, "identity"}})),
      choice_field<Options, Coverage>("coverage", "whether the score sees the weights so far",
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
      choice_field<Options, Normalizer>("normalizer", "what turns scores into weights",
                                        of_attention(&Attention::normalizer),
                                        {{Normalizer::softmax, "softmax"},
                                         {Normalizer::sparsemax, "sparsemax"},
                                         {Normalizer::sigmoid, "sigmoid"}})};
}

}  // namespace attune::models
