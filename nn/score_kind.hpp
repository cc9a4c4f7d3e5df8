// A score chosen at run time, by name.
#pragma once

#include <memory>
#include <string_view>

#include <attune/nn/score.hpp>

namespace attune::nn {

enum class ScoreKind { additive, dot, scaled_dot, general, concat, location, cosine, multi_head };

/// "additive", "dot", "scaled_dot" and so on. `score_kind_of` throws on any other name.
const char* name_of(ScoreKind kind);
ScoreKind score_kind_of(std::string_view name);

/// Whether it compares state and annotations without weights of its own: their sizes must agree.
bool compares_directly(ScoreKind kind);

struct ScoreOptions {
  ScoreKind kind = ScoreKind::additive;
  Index attention = 256;                 // A of additive, concat and multi_head
  Index heads = 4;                       // multi_head
  Index longest = 100;                   // location: the longest source
  ConcatForm concat = ConcatForm::full;  // identity: A is the memory's size
  Coverage coverage = Coverage::none;
};

/// The score of that kind for a query of `query` and annotations of `memory` elements. dot,
/// scaled_dot and cosine compare the two directly: throws when their sizes differ. With coverage,
/// additive and concat have it in the tanh; the others come as a CoveredScore.
std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& options);

}  // namespace attune::nn
