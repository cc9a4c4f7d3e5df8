// A score chosen by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <attune/nn/score.hpp>

namespace attune::nn {

struct ScoreOptions {
  std::string_view kind = "additive";    // one of score_kinds(); not copied
  Index attention = 256;                 // A of additive, concat and multi_head
  Index heads = 4;                       // multi_head
  Index longest = 100;                   // location: the longest source
  ConcatForm concat = ConcatForm::full;  // identity: A is the memory's size
  Coverage coverage = Coverage::none;
  LocationAwareScoreOptions location_aware = {};
};

/// A kind of score. To add a kind, add an entry to the table in score_kind.cpp.
struct ScoreKind {
  const char* name;
  /// Whether it compares state and annotations without weights of its own: their sizes must agree.
  bool direct;
  /// Makes the score for a query of `query` and annotations of `memory` elements. The score may
  /// ignore the option `coverage`: make_score then wraps it in a CoveredScore.
  std::shared_ptr<const Score> (*make)(const Scope& scope, Index query, Index memory,
                                       const ScoreOptions& options);
};

/// additive, dot, scaled_dot, general, concat, location, cosine, multi_head and location_aware.
std::span<const ScoreKind> score_kinds();

/// Throws on a name that is none of them.
const ScoreKind& score_kind(std::string_view name);

/// The score that the options name. Throws where one that compares directly is given different
/// sizes. With coverage, additive and concat have it in the tanh; the others come as a
/// CoveredScore.
std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& options);

}  // namespace attune::nn
