// Attention: a score, normalised over the source, and the weighted sum.
#pragma once

#include <memory>

#include <attune/nn/score.hpp>

namespace attune::nn {

/// A source to attend to: annotations, and what the score keeps of them.
struct Memory {
  Var h;        // (S, B, D)
  Tensor mask;  // (S, B): 1 on words, 0 on padding
  Keys keys;
};

/// Columns of a batch by number, with repetition: (S, B, ...) -> (S, rows, ...). For search;
/// nothing is recorded.
Memory select(const Memory& memory, const Tensor& rows);

/// What was read, and where.
struct Attended {
  Var context;  // (B, D)
  Var weights;  // (S, B), exactly 0 on padding
};

/// With any score (Bahdanau et al., 2014, equations 6 and 5):
///     α_ij = exp(e_ij) / Σ_k exp(e_ik),   c_i = Σ_j α_ij h_j
/// What h holds under padding does not matter, as long as it is finite.
class Attention {
 public:
  template <class AnyScore>
  requires std::is_base_of_v<Score, AnyScore>
  explicit Attention(AnyScore score) : score_(std::make_shared<const AnyScore>(std::move(score))) {}

  /// Once per sentence: h (S, B, D), mask (S, B).
  Memory remember(const Var& h, const Tensor& mask) const;

  /// Once per word.
  Attended operator()(const Query& query, const Memory& memory) const;

 private:
  std::shared_ptr<const Score> score_;
};

}  // namespace attune::nn
