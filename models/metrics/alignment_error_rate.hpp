// What word alignments are worth against links that people drew.
#pragma once

#include <cstddef>
#include <span>

#include <attune/models/text/alignment.hpp>

namespace attune::metrics {

/// All shares are between 0 and 1; published tables have per cent.
struct AlignmentScore {
  std::size_t links = 0;        ///< |A|
  std::size_t sure = 0;         ///< |S|
  std::size_t in_sure = 0;      ///< |A ∩ S|
  std::size_t in_possible = 0;  ///< |A ∩ P|

  double error_rate() const;  ///< 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 for nothing over nothing
  double precision() const;  ///< |A ∩ P| / |A|; 1 without links
  double recall() const;     ///< |A ∩ S| / |S|; 1 without sure links
};

/// Alignment error rate of a corpus (Och and Ney, 2003, "A systematic comparison of various
/// statistical alignment models", section 5). With A the links found, S the sure and P ⊇ S the
/// possible ones,
///
///     AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
///
/// where each of the four numbers is summed over all sentences before anything is divided: it is
/// not the mean over sentences. Throws when there are not as many sentences of one as of the other
/// and when a position is negative.
AlignmentScore alignment_error_rate(std::span<const text::Alignment> found,
                                    std::span<const text::GoldAlignment> gold);

}  // namespace attune::metrics
