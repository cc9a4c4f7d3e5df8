// Self-attention: every place of a sequence attends to the others.
#pragma once

#include <attune/nn/linear.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// Whether a place may attend to those after it.
enum class Causal { no, yes };

struct SelfAttentionOptions {
  Index heads = 1;
  Causal causal = Causal::no;
};

struct SelfAttended {
  Var y;        // (T, B, D)
  Var weights;  // (heads, B, T, T): row t is where place t looks, exactly 0 on padding
};

/// Multi-head scaled dot-product self-attention (Vaswani et al., 2017, sections 3.2.1 and 3.2.2),
/// for head k with A = D / K elements:
///     α_k = softmax((x W_q)_k (x W_k)_kᵀ / √A),  y = [α_1 (x W_v)_1; ...; α_K (x W_v)_K] W_o + b_o
/// A layer like a recurrent one: the same shapes in and out, the same masks. Without
/// Causal::yes, the order of the places has no influence; add encodings of the positions to x if it
/// should have.
class SelfAttention {
 public:
  /// Throws unless `heads` divides `size`.
  SelfAttention(const Scope& scope, Index size, const SelfAttentionOptions& options = {});

  /// x (T, B, D), mask (T, B) or undefined: all words. A place that may look at nothing gets b_o.
  SelfAttended operator()(const Var& x, const Tensor& mask = {}) const;

 private:
  Var heads_of(const Var& x) const;

  SelfAttentionOptions options_;
  Var W_q_, W_k_, W_v_;  // (D, D)
  Linear output_;        // W_o (D, D), b_o (D)
};

}  // namespace attune::nn
