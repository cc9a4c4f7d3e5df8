// Options of nn's layers by name, for any struct that has them.
#pragma once

#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/score.hpp>

namespace attune::models {

template <class Options, class Member>
OptionField<Options> cell_field(const char* name, const char* help, Member member) {
  std::vector<std::pair<nn::Cell, std::string>> cells;
  for (const nn::Cell cell : {nn::Cell::gru, nn::Cell::gru_reset_before, nn::Cell::lstm})
    cells.emplace_back(cell, nn::name_of(cell));
  return choice_field<Options, nn::Cell>(name, help, member, cells);
}

/// An option of one score, under the name that nn::score_kinds() has for it.
template <class Options>
OptionField<Options> of_score(std::string_view kind, OptionField<Options> field) {
  return only_with<Options>(
      "score " + detail::hyphenated(std::string(kind)),
      [kind](const Options& o) { return o.score.kind == kind; }, std::move(field));
}

/// The fields of `score` (nn::ScoreOptions) and of `attention` (nn::AttentionOptions). Without
/// `with_direct` the scores are left out that need states and annotations of one size.
template <class Options>
std::vector<OptionField<Options>> attention_fields(bool with_direct = true) {
  using nn::ConcatForm, nn::Coverage, nn::Normalizer, nn::Window;
  constexpr double largest = 1 << 16, longest = 1 << 20;
  std::vector<std::pair<std::string_view, std::string>> scores;
  for (const nn::ScoreKind& kind : nn::score_kinds())
    if (with_direct || !kind.direct) scores.emplace_back(kind.name, kind.name);
  return {
      choice_field<Options, std::string_view>(
          "score", "how places are scored", [](Options & o) -> auto& { return o.score.kind; },
          scores),
      number_field<Options>(
          "attention", "size A of the scores additive, concat, multi-head and location-aware",
          [](Options & o) -> auto& { return o.score.attention; }, 1, largest),
      of_score("multi_head", number_field<Options>(
                                 "heads", "heads of the score multi-head",
                                 [](Options & o) -> auto& { return o.score.heads; }, 1, largest)),
      of_score("location", number_field<Options>(
                               "longest", "longest source of the score location",
                               [](Options & o) -> auto& { return o.score.longest; }, 1, longest)),
      of_score(
          "location_aware",
          number_field<Options>(
              "filters", "filters of the score location-aware",
              [](Options & o) -> auto& { return o.score.location_aware.filters; }, 1, largest)),
      of_score("location_aware",
               number_field<Options>(
                   "radius", "places on each side of its own that a filter of location-aware sees",
                   [](Options & o) -> auto& { return o.score.location_aware.radius; }, 0, longest)),
      of_score("concat", choice_field<Options, ConcatForm>(
                             "concat-form", "what the score concat does to the memory",
                             [](Options & o) -> auto& { return o.score.concat; },
                             {{ConcatForm::full, "full"}, {ConcatForm::identity, "identity"}})),
      choice_field<Options, Coverage>("coverage", "whether the score sees the weights so far",
                                      [](Options & o) -> auto& { return o.score.coverage; },
                                      {{Coverage::none, "none"}, {Coverage::summed, "summed"}}),
      choice_field<Options, Window>("window", "which places a step may look at",
                                    [](Options & o) -> auto& { return o.attention.window; },
                                    {{Window::global, "global"},
                                     {Window::local_monotonic, "local-m"},
                                     {Window::local_predictive, "local-p"}}),
      only_with<Options>(
          "a window", [](const Options& o) { return o.attention.window != Window::global; },
          number_field<Options>(
              "half-width", "half width D of a window",
              [](Options & o) -> auto& { return o.attention.half_width; }, 1, longest)),
      choice_field<Options, Normalizer>("normalizer", "what turns scores into weights",
                                        [](Options & o) -> auto& { return o.attention.normalizer; },
                                        {{Normalizer::softmax, "softmax"},
                                         {Normalizer::sparsemax, "sparsemax"},
                                         {Normalizer::sigmoid, "sigmoid"}})};
}

}  // namespace attune::models
