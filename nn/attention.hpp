// Attention: a score, a window, weights, and the weighted sum; coverage.
#pragma once

#include <concepts>
#include <memory>

#include <attune/autograd/var.hpp>
#include <attune/nn/score.hpp>

namespace attune::nn {

// Coverage: the sum of the weights so far. `ScoreOptions::coverage` chooses scores that use it, and
// Attention::next adds it up. A loss adds it up by itself:
//
//     loss = loss + sum(coverage_loss(weights, coverage));
//     coverage = add_coverage(coverage, weights);

/// The mean over the heads: (heads, S, B) -> (S, B); (S, B) is returned as it is.
Var mean_of_heads(const Var& weights);

/// Σ_{t' <= t} α_t'  (See et al., equation 10): coverage (S, B) or undefined, weights (S, B) or
/// (heads, S, B), of which the mean counts -> (S, B).
Var add_coverage(const Var& coverage, const Var& weights);

/// Σ_s min(α_s, coverage_s)  (equation 12) of each sentence, shapes as above -> (B); zeros where
/// the coverage is undefined. Padding has no share in it: both are 0 there.
Var coverage_loss(const Var& weights, const Var& coverage);

/// A source to attend to: annotations, and what is computed from them once.
struct Memory {
  Var h;           // (S, B, D): what is summed
  Tensor mask;     // (S, B): 1 on words, 0 on padding
  Keys keys;       // what the score keeps
  Tensor lengths;  // (B), of mask's dtype: words of each sentence
  Tensor columns;  // (B) i32: where each sentence stood when it was remembered
};

/// Columns of a batch by number; numbers may repeat: (S, B, ...) -> (S, rows, ...). For search;
/// nothing is recorded. If each column still belongs to the same sentence, the memory itself is
/// returned: in a beam, hypotheses of one sentence are reordered at every step.
Memory select(const Memory& memory, const Tensor& rows);
Past select(const Past& past, const Tensor& rows);

/// The result of a step of attention.
struct Attended {
  Var context;  // (B, D)
  Var weights;  // (S, B), or (heads, S, B); exactly 0 on padding and outside of a window
};

/// Which source positions a step may attend to (Luong et al., 2015, section 3.2). With
/// D = `half_width`:
///  * global: all of them;
///  * local_monotonic (local-m): p_t - D .. p_t + D, where p_t = t, and the last position for
///    t beyond it;
///  * local_predictive (local-p): those within D of p_t = S · σ(v_p · tanh(h_t W_p)), S being the
///    sentence's length (equation 9); weights are multiplied by exp(-(s - p_t)² / 2σ²), σ = D / 2
///    (equation 10), and not normalised again.
/// Positions count from 0. Scores are computed for the window's positions alone.
enum class Window { global, local_monotonic, local_predictive };

/// How scores become weights:
///  * softmax;
///  * sparsemax (Martins and Astudillo, 2016), which gives most positions exactly 0;
///  * sigmoid: σ(e_j) / Σ_k σ(e_k), which lets attention rest on several positions (the smoothing
///    of Chorowski et al., 2015, section 2.3).
enum class Normalizer { softmax, sparsemax, sigmoid };

struct AttentionOptions {
  Window window = Window::global;
  Index half_width = 10;  // D
  Normalizer normalizer = Normalizer::softmax;
};

/// With any score (Bahdanau et al., 2014, equations 6 and 5), over the window's positions:
///     α_ij = exp(e_ij) / Σ_k exp(e_ik),   c_i = Σ_j α_ij h_j
/// What h holds under padding does not matter, as long as it is finite.
class Attention {
 public:
  /// Global attention, which has no parameters but the score's.
  template <std::derived_from<Score> AnyScore>
  explicit Attention(AnyScore score) : score_(std::make_shared<const AnyScore>(std::move(score))) {}

  /// With a window. The score is made first, in the same scope or another; `query` is the size of
  /// h_t.
  template <std::derived_from<Score> AnyScore>
  Attention(const Scope& scope, AnyScore score, Index query, const AttentionOptions& options)
      : Attention(std::make_shared<const AnyScore>(std::move(score)), scope, query, options) {}

  /// For a score that is chosen at run time.
  Attention(std::shared_ptr<const Score> score, const Scope& scope, Index query,
            const AttentionOptions& options);

  /// Once per sentence: h (S, B, D), mask (S, B).
  Memory remember(const Var& h, const Tensor& mask) const;

  /// Once per word.
  Attended operator()(const Query& query, const Memory& memory) const;

  /// The past of the next step, from that of this step and its weights.
  Past next(const Past& past, const Var& weights) const;

 private:
  Var normalized(const Var& e, const Tensor& mask) const;
  Attended attend(const Query& query, const Memory& memory) const;
  Attended attend_to_window(const Query& query, const Memory& memory) const;

  std::shared_ptr<const Score> score_;
  AttentionOptions options_;
  Var W_p_;  // (Q, Q), local_predictive only
  Var v_p_;  // (Q)
};

}  // namespace attune::nn
