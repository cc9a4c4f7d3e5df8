// One alignment from those of the two directions.
#pragma once

#include <attune/models/text/alignment.hpp>

namespace attune::metrics {

enum class Symmetrisation { intersection, unite, grow_diag, grow_diag_final };

/// When a link may be added: while at least one of its two words has no link yet, or only while
/// neither has.
enum class Unlinked { either, both };

struct SymmetriseOptions {
  Symmetrisation method = Symmetrisation::grow_diag_final;
  Unlinked grow = Unlinked::either;   ///< in the growing of grow_diag and grow_diag_final
  Unlinked final = Unlinked::either;  ///< in the last step of grow_diag_final
};

/// The alignment of a sentence pair from those of two models, of the target given the source and of
/// the source given the target. Both have links source-target: read the file of the reverse model
/// with `.target_first = true`. With F = forward and B = backward,
///
///     intersection     F ∩ B
///     unite            F ∪ B
///     grow_diag        F ∩ B, to which links of F ∪ B are added that touch a link which is there
///                      (its 8 neighbours), as long as there are any
///     grow_diag_final  grow_diag, then the links of F, then those of B
///
/// where a link is added only while its words are unlinked in the sense of the options (Och and
/// Ney, 2003; Koehn, Och and Marcu, 2003, "Statistical phrase-based translation"). The defaults are
/// what Moses documents as grow-diag-final, `.final = Unlinked::both` is its grow-diag-final-and;
/// `both` in both places is the stricter grow-diagonal-final of published comparisons of aligners.
///
/// The result can depend on the order of growing, which the papers leave open. Here links are taken
/// by source, then target, and of each first the neighbours that share a word with it, at (source,
/// target) + (-1, 0), (0, -1), (1, 0), (0, 1), then those at (-1, 1), (-1, -1), (1, -1), (1, 1). A
/// link just added takes its place in that order, and it starts again until nothing is added.
/// Throws when a position is negative.
text::Alignment symmetrise(const text::Alignment& forward, const text::Alignment& backward,
                           const SymmetriseOptions& options = {});

}  // namespace attune::metrics
