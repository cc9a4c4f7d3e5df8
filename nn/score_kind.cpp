#include <array>
#include <utility>

#include <fmt/format.h>

#include <attune/nn/score_kind.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

constexpr std::array<std::pair<ScoreKind, const char*>, 8> names = {
    {{ScoreKind::additive, "additive"},
     {ScoreKind::dot, "dot"},
     {ScoreKind::scaled_dot, "scaled_dot"},
     {ScoreKind::general, "general"},
     {ScoreKind::concat, "concat"},
     {ScoreKind::location, "location"},
     {ScoreKind::cosine, "cosine"},
     {ScoreKind::multi_head, "multi_head"}}};

/// The score without coverage, but for those that have a form of their own with it.
std::shared_ptr<const Score> make_kind(const Scope& scope, Index query, Index memory,
                                       const ScoreOptions& o) {
  switch (o.kind) {
    case ScoreKind::additive:
      return std::make_shared<AdditiveScore>(scope, query, memory, o.attention, o.coverage);
    case ScoreKind::dot:
      return std::make_shared<DotScore>();
    case ScoreKind::scaled_dot:
      return std::make_shared<ScaledDotScore>();
    case ScoreKind::general:
      return std::make_shared<GeneralScore>(scope, query, memory);
    case ScoreKind::concat:
      return std::make_shared<ConcatScore>(
          scope, query, memory, o.concat == ConcatForm::full ? o.attention : memory,
          ConcatScoreOptions{.form = o.concat, .coverage = o.coverage});
    case ScoreKind::location:
      return std::make_shared<LocationScore>(scope, query, o.longest);
    case ScoreKind::cosine:
      return std::make_shared<CosineScore>(scope, query);
    case ScoreKind::multi_head:
      break;
  }
  return std::make_shared<MultiHeadScore>(scope, query, memory, o.attention, o.heads);
}

}  // namespace

const char* name_of(ScoreKind kind) { return names[static_cast<std::size_t>(kind)].second; }

ScoreKind score_kind_of(std::string_view name) {
  std::string all;
  for (const auto& [kind, own] : names) {
    if (name == own) return kind;
    all += all.empty() ? own : fmt::format(", {}", own);
  }
  fail("score", fmt::format("'{}' is not one of {}", name, all));
}

bool compares_directly(ScoreKind kind) {
  return kind == ScoreKind::dot || kind == ScoreKind::scaled_dot || kind == ScoreKind::cosine;
}

std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& o) {
  if (compares_directly(o.kind) && query != memory) {
    fail("score",
         fmt::format(
             "{} compares a state of {} with annotations of {}: general, or another score with "
             "weights, takes different sizes",
             name_of(o.kind), query, memory));
  }
  auto score = make_kind(scope, query, memory, o);
  const bool inside = o.kind == ScoreKind::additive || o.kind == ScoreKind::concat;
  if (o.coverage == Coverage::none || inside) return score;
  return std::make_shared<CoveredScore>(scope, std::move(score), query);
}

}  // namespace attune::nn
