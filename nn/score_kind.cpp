#include <array>

#include <fmt/format.h>

#include <attune/nn/score_kind.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

using Made = std::shared_ptr<const Score>;

Made concat(const Scope& scope, Index query, Index memory, const ScoreOptions& o) {
  const Index attention = o.concat == ConcatForm::full ? o.attention : memory;
  return std::make_shared<ConcatScore>(
      scope, query, memory, attention,
      ConcatScoreOptions{.form = o.concat, .coverage = o.coverage});
}

constexpr auto kinds = std::to_array<ScoreKind>({
    {"additive", false,
     [](const Scope& scope, Index query, Index memory, const ScoreOptions& o) -> Made {
       return std::make_shared<AdditiveScore>(scope, query, memory, o.attention, o.coverage);
     }},
    {"dot", true,
     [](const Scope&, Index, Index, const ScoreOptions&) -> Made {
       return std::make_shared<DotScore>();
     }},
    {"scaled_dot", true,
     [](const Scope&, Index, Index, const ScoreOptions&) -> Made {
       return std::make_shared<ScaledDotScore>();
     }},
    {"general", false,
     [](const Scope& scope, Index query, Index memory, const ScoreOptions&) -> Made {
       return std::make_shared<GeneralScore>(scope, query, memory);
     }},
    {"concat", false, concat},
    {"location", false,
     [](const Scope& scope, Index query, Index, const ScoreOptions& o) -> Made {
       return std::make_shared<LocationScore>(scope, query, o.longest);
     }},
    {"cosine", true,
     [](const Scope& scope, Index query, Index, const ScoreOptions&) -> Made {
       return std::make_shared<CosineScore>(scope, query);
     }},
    {"multi_head", false,
     [](const Scope& scope, Index query, Index memory, const ScoreOptions& o) -> Made {
       return std::make_shared<MultiHeadScore>(scope, query, memory, o.attention, o.heads);
     }},
    {"location_aware", false,
     [](const Scope& scope, Index query, Index memory, const ScoreOptions& o) -> Made {
       return std::make_shared<LocationAwareScore>(scope, query, memory, o.attention,
                                                   o.location_aware);
     }},
});

}  // namespace

std::span<const ScoreKind> score_kinds() { return kinds; }

const ScoreKind& score_kind(std::string_view name) {
  std::string all;
  for (const ScoreKind& kind : kinds) {
    if (name == kind.name) return kind;
    all += all.empty() ? kind.name : fmt::format(", {}", kind.name);
  }
  fail("score", fmt::format("'{}' is not one of {}", name, all));
}

std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& o) {
  const ScoreKind& kind = score_kind(o.kind);
  if (kind.direct && query != memory) {
    fail("score",
         fmt::format(
             "{} needs a state and annotations of the same size, not {} and {}: use general or "
             "another score with weights",
             kind.name, query, memory));
  }
  auto score = kind.make(scope, query, memory, o);
  if (o.coverage == Coverage::none || score->looks_at_coverage()) return score;
  return std::make_shared<CoveredScore>(scope, std::move(score), query);
}

}  // namespace attune::nn
