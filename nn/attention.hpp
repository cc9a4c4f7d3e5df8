// Attention: score functions (how well a source position fits the word that a decoder is about to
// write), windows, weights, and the weighted sum; coverage.
#pragma once

#include <cmath>
#include <concepts>
#include <memory>
#include <span>
#include <string_view>

#include <attune/autograd/attention_ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::nn {

/// What attention has done for a sentence so far: a decoder carries it from step to step
/// (Attention::next).
struct AttentionState {
  Index steps = 0;  // made before
  // (S, B), the mean over the heads where there are several; undefined: 0
  Var coverage = {};  // their weights summed, where the score uses it
  Var weights = {};   // those of the step before, where the score uses them
};

/// The query of a score.
struct Query {
  Var state;                 // (B, Q)
  AttentionState past = {};  // of the same sentences
};

/// Whether a score uses the coverage (Tu et al., 2016); with `none` it ignores `past.coverage`.
enum class Coverage { none, summed };

/// What a score sees of a memory. A window gathers some positions: then S is the window's size, and
/// `positions` says which they are.
struct Keys {
  Var k;                  // (S, B, A), of Score::keys
  Mask mask;              // (S, B)
  Tensor positions = {};  // (S, B) i32, -1 where there is none; undefined: 0 .. S-1
};

/// A score e = a(s, h) of every source position. Derive from it to add one: what depends on the
/// memory alone goes into `keys`, what depends on the query into the call.
class Score {
 public:
  Score() = default;
  /// Error messages from attention include this scope's path.
  explicit Score(const Scope& scope) : path_(scope.path()) {}
  virtual ~Score() = default;
  const std::string& path() const { return path_; }

  /// What it computes once per sentence, (S, B, D) -> (S, B, A): the memory itself unless a score
  /// projects it; undefined if it does not use the memory.
  virtual Var keys(const Var& memory) const { return memory; }
  /// -> e (S, B), or (heads, S, B)
  virtual Var operator()(const Query& query, const Keys& keys) const = 0;
  /// Whether it uses `past.coverage`, and `past.weights`.
  virtual bool uses_coverage() const { return false; }
  virtual bool uses_weights() const { return false; }
  /// What the weights sum, (S, B, D) -> (S, B, D); the memory itself unless a score projects it.
  virtual Var values(const Var& memory) const { return memory; }

 private:
  std::string path_;
};

/// What concat does to the memory. `identity` is what Luong et al. (2015, section 5.3, footnote)
/// ran: the part of W_a that belongs to h_s is the identity, so A is D.
enum class ConcatForm { full, identity };

/// For all scores; each takes what it needs.
struct ScoreOptions {
  std::string_view kind = "additive";    // of make_score: one of score_kinds(); not copied
  Index attention = 256;                 // A of additive, concat, multi_head and location_aware
  Index heads = 4;                       // multi_head
  Index longest = 100;                   // location: the longest source
  ConcatForm concat = ConcatForm::full;  // identity: A is the memory's size
  Coverage coverage = Coverage::none;    // of additive and concat; make_score has it for all
  Index filters = 10;                    // location_aware: K
  Index radius = 100;  // location_aware: r, a filter sees the 2r + 1 positions around its own
};

// The scores. All are made from a scope and the sizes Q of a query and D of the memory.

namespace detail {
/// v · tanh(...) starts with a variance near that of its argument.
inline Var add_v(const Scope& scope, Index attention) {
  return scope.add("v_a", {attention}, init::normal(1 / std::sqrt(static_cast<double>(attention))));
}
/// Undefined without coverage.
inline Var add_w_c(const Scope& scope, Index n, Coverage coverage = Coverage::summed) {
  return coverage == Coverage::none ? Var() : scope.add("w_c", {n}, init::normal(0.01));
}
}  // namespace detail

/// reference::additive_scores with q = s_{i-1} W_a and k = h_j U_a, with coverage or without
class AdditiveScore : public Score {
 public:
  AdditiveScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o = {})
      : Score(scope),
        W_a_(scope.add("W_a", {query, o.attention}, init::glorot())),
        U_a_(scope.add("U_a", {memory, o.attention}, init::glorot())),
        v_a_(detail::add_v(scope, o.attention)),
        w_c_(detail::add_w_c(scope, o.attention, o.coverage)) {}

  /// h U_a: (S, B, D) -> (S, B, A)
  Var keys(const Var& memory) const override { return matmul(memory, U_a_); }
  Var operator()(const Query& query, const Keys& keys) const override {
    return additive_scores(matmul(query.state, W_a_), keys.k, v_a_, query.past.coverage, w_c_);
  }
  bool uses_coverage() const override { return w_c_.defined(); }

 private:
  Var W_a_;  // (Q, A)
  Var U_a_;  // (D, A)
  Var v_a_;  // (A)
  Var w_c_;  // (A), undefined without coverage
};

/// The additive score made to see where attention stood at the step before (Chorowski et al., 2015,
/// equations 8 and 9):
///     f_i = F ∗ α_{i-1},   e_ij = v_a · tanh(s_{i-1} W_a + h_j U_a + f_ij U_f + b_a)
/// with zeros around the source, and for α_0. In a window, f is computed from all positions.
class LocationAwareScore : public Score {
 public:
  /// Throws unless there is a filter, and its radius is not negative.
  LocationAwareScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o = {});

  /// h U_a + b_a: (S, B, D) -> (S, B, A)
  Var keys(const Var& memory) const override { return add_matmul(b_a_, memory, U_a_); }
  Var operator()(const Query& query, const Keys& keys) const override;
  bool uses_weights() const override { return true; }

 private:
  Index radius_;
  Var W_a_;  // (Q, A)
  Var U_a_;  // (D, A)
  Var b_a_;  // (A)
  Var v_a_;  // (A)
  Var F_;    // (2r + 1, K)
  Var U_f_;  // (K, A)
};

/// e_ts = h_t · h_s   (Luong et al., 2015, section 3.1, "dot"): Q must be D.
class DotScore : public Score {
 public:
  DotScore() = default;
  DotScore(const Scope& scope, Index, Index, const ScoreOptions& = {}) : Score(scope) {}

  Var operator()(const Query& query, const Keys& keys) const override {
    return dot_scores(query.state, keys.k);
  }
};

/// e_ts = h_t · h_s / √D   (Vaswani et al., 2017, equation 1): Q must be D.
class ScaledDotScore : public DotScore {
 public:
  using DotScore::DotScore;

  Var operator()(const Query& query, const Keys& keys) const override {
    return DotScore::operator()(query, keys) / std::sqrt(static_cast<double>(query.state.dim(-1)));
  }
};

/// e_ts = h_t W_a · h_s   (Luong et al., 2015, section 3.1, "general"). W_a is applied to the
/// memory, once per sentence.
class GeneralScore : public DotScore {
 public:
  GeneralScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o = {})
      : DotScore(scope, query, memory, o),
        W_a_(scope.add("W_a", {query, memory}, init::glorot())) {}

  /// h W_aᵀ: (S, B, D) -> (S, B, Q)
  Var keys(const Var& memory) const override { return matmul(memory, W_a_, {.b = true}); }

 private:
  Var W_a_;  // (Q, D)
};

/// e_ts = v_a · tanh([h_t; h_s] W_a)   (Luong et al., 2015, section 3.1, "concat"). This is the
/// additive score with W_a in two parts: rows 0 .. Q-1 for h_t, the others for h_s. Coverage enters
/// as in AdditiveScore.
class ConcatScore : public Score {
 public:
  ConcatScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o = {})
      : Score(scope), query_(query), form_(o.concat) {
    const bool full = form_ == ConcatForm::full;
    const Index attention = full ? o.attention : memory;
    W_a_ = scope.add("W_a", {full ? query + memory : query, attention}, init::glorot());
    v_a_ = detail::add_v(scope, attention);
    w_c_ = detail::add_w_c(scope, attention, o.coverage);
  }

  Var keys(const Var& memory) const override {
    if (form_ == ConcatForm::identity) return memory;
    return matmul(memory, slice(W_a_, 0, query_, W_a_.dim(0)));
  }
  Var operator()(const Query& query, const Keys& keys) const override {
    const Var q = matmul(query.state, slice(W_a_, 0, 0, query_));
    return additive_scores(q, keys.k, v_a_, query.past.coverage, w_c_);
  }
  bool uses_coverage() const override { return w_c_.defined(); }

 private:
  Index query_;
  ConcatForm form_;
  Var W_a_;  // (Q + D, A), with `identity` (Q, A)
  Var v_a_;  // (A)
  Var w_c_;  // (A), undefined without coverage
};

/// e_ts = (h_t W_a)_s   (Luong et al., 2015, equation 8, "location"): the position alone counts,
/// not the memory. W_a has a column for each of `longest` positions; a shorter source uses the
/// first of them, and a longer one is an error.
class LocationScore : public Score {
 public:
  LocationScore(const Scope& scope, Index query, Index, const ScoreOptions& o = {})
      : Score(scope), W_a_(scope.add("W_a", {query, o.longest}, init::glorot())) {}

  Var keys(const Var& memory) const override;
  Var operator()(const Query& query, const Keys& keys) const override {
    const Var e = matmul(W_a_, query.state, {.a = true, .b = true});  // (longest, B)
    return keys.positions.defined() ? window(e, keys.positions) : slice(e, 0, 0, keys.mask.dim(0));
  }

 private:
  Var W_a_;  // (Q, longest)
};

/// e_ts = β_t cos(h_t, h_s), with the sharpness β_t = softplus(h_t W_β + b_β)  (Graves et al.,
/// 2014, equations 5-6: content-based addressing): Q must be D.
class CosineScore : public Score {
 public:
  CosineScore(const Scope& scope, Index query, Index, const ScoreOptions& = {})
      : Score(scope), beta_(scope / "beta", query, 1) {}

  Var keys(const Var& memory) const override { return unit_vectors(memory); }
  Var operator()(const Query& query, const Keys& keys) const override {
    const Var beta = reshape(softplus(beta_(query.state)), {-1});  // (B)
    return beta * dot_scores(unit_vectors(query.state), keys.k);
  }

 private:
  Linear beta_;  // (Q, 1)
};

/// e_kts = (h_t W_q)_k · (h_s W_k)_k / √(A / K) in each of K heads, which read (h_s W_v)_k
/// (Vaswani et al., 2017, section 3.2.2). The context is the heads' side by side; the paper's W_O
/// is left to the layer that takes the context.
class MultiHeadScore : public Score {
 public:
  /// Throws unless `heads` divides both the attention's size and the memory's.
  MultiHeadScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o = {});

  Var keys(const Var& memory) const override { return matmul(memory, W_k_); }
  Var operator()(const Query& query, const Keys& keys) const override {
    return dot_scores(matmul(query.state, W_q_), keys.k, heads_) / scale_;
  }
  Var values(const Var& memory) const override { return matmul(memory, W_v_); }

 private:
  Index heads_;
  double scale_;
  Var W_q_;  // (Q, A)
  Var W_k_;  // (D, A)
  Var W_v_;  // (D, D)
};

/// e_j + coverage_j (s · w_c): any other score, extended by the coverage. With more heads, the
/// same is added to each.
class CoverageScore : public Score {
 public:
  CoverageScore(const Scope& scope, std::shared_ptr<const Score> score, Index query)
      : Score(scope), score_(std::move(score)), w_c_(detail::add_w_c(scope, query)) {}

  Var keys(const Var& memory) const override { return score_->keys(memory); }
  Var operator()(const Query& query, const Keys& keys) const override {
    const Var e = (*score_)(query, keys), &coverage = query.past.coverage;
    return coverage.defined() ? e + coverage * sum(query.state * w_c_, {-1}) : e;
  }
  Var values(const Var& memory) const override { return score_->values(memory); }
  bool uses_coverage() const override { return true; }
  bool uses_weights() const override { return score_->uses_weights(); }

 private:
  std::shared_ptr<const Score> score_;
  Var w_c_;  // (Q)
};

/// A kind of score. To add a kind, add an entry to the table in attention.cpp.
struct ScoreKind {
  const char* name;
  /// Whether it compares state and annotations without weights of its own: their sizes must agree.
  bool direct;
  /// May ignore the option `coverage`: make_score then wraps the score in a CoverageScore.
  std::shared_ptr<const Score> (*make)(const Scope& scope, Index query, Index memory,
                                       const ScoreOptions& options);
};

/// additive, dot, scaled_dot, general, concat, location, cosine, multi_head and location_aware.
std::span<const ScoreKind> score_kinds();

/// Throws on a name that is none of them.
const ScoreKind& score_kind(std::string_view name);

/// The score that the options name. Throws where one that compares directly is given different
/// sizes. With coverage, additive and concat have it in the tanh; the others come as a
/// CoverageScore.
std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& options);

// Coverage: the sum of the weights so far. `ScoreOptions::coverage` chooses scores that use it, and
// Attention::next adds it up. A loss adds it up by itself:
//
//     loss = loss + sum(coverage_loss(weights, coverage));
//     coverage = add_coverage(coverage, weights);

/// The mean over the heads: (heads, S, B) -> (S, B); (S, B) is returned as it is.
inline Var mean_of_heads(const Var& weights) {
  return weights.rank() == 3 ? mean(weights, {0}) : weights;
}

/// Σ_{t' <= t} α_t'  (See et al., equation 10): coverage (S, B) or undefined, weights (S, B) or
/// (heads, S, B), of which the mean counts -> (S, B).
Var add_coverage(const Var& coverage, const Var& weights);

/// Σ_s min(α_s, coverage_s)  (equation 12) of each sentence, shapes as above -> (B); zeros where
/// the coverage is undefined. Padding has no share in it: both are 0 there.
Var coverage_loss(const Var& weights, const Var& coverage);

/// A source to attend to: annotations, and what is computed from them once.
struct Memory {
  Var h;           // (S, B, D): what is summed
  Keys keys;       // whose mask (S, B) is 1 on words, 0 on padding
  Tensor lengths;  // (B), of the mask's dtype: words of each sentence
  Tensor columns;  // (B) i32: where each sentence stood when it was remembered
};

/// Columns of a batch by number; numbers may repeat: (S, B, ...) -> (S, rows, ...). For search;
/// nothing is recorded. If each column still belongs to the same sentence, the memory itself is
/// returned: in a beam, hypotheses of one sentence are reordered at every step.
Memory select(const Memory& memory, const Tensor& rows);
inline AttentionState select(const AttentionState& past, const Tensor& rows) {
  return {past.steps, select_columns(past.coverage, rows), select_columns(past.weights, rows)};
}

/// The result of a step of attention.
struct AttentionResult {
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
///  * sparsemax (Martins and Astudillo, 2016), which gives most positions exactly 0.
enum class Normalizer { softmax, sparsemax };

struct AttentionOptions {
  Window window = Window::global;
  Index half_width = 10;  // D
  Normalizer normalizer = Normalizer::softmax;
};

/// With any score, over the window's positions (Bahdanau et al., 2014, equations 6 and 5): the
/// weights are the softmax of the scores, and the context is their weighted_sum of h, both as in
/// autograd/reference.hpp. What h holds under padding does not matter, as long as it is finite.
class Attention {
 public:
  /// Global attention, which has no parameters but the score's.
  template <std::derived_from<Score> AnyScore>
  explicit Attention(AnyScore score) : score_(std::make_shared<const AnyScore>(std::move(score))) {}

  /// With a window, or with a score that is chosen at run time. The score is made first, in the
  /// same scope or another; `query` is the size of h_t.
  Attention(std::shared_ptr<const Score> score, const Scope& scope, Index query,
            const AttentionOptions& options);

  /// Once per sentence: h (S, B, D), mask (S, B).
  Memory precompute(const Var& h, const Mask& mask) const;

  /// Once per word.
  AttentionResult operator()(const Query& query, const Memory& memory) const;

  /// The past of the next step, from that of this step and its weights.
  AttentionState next(const AttentionState& past, const Var& weights) const {
    return {past.steps + 1, score_->uses_coverage() ? add_coverage(past.coverage, weights) : Var(),
            score_->uses_weights() ? mean_of_heads(weights) : Var()};
  }

 private:
  /// Over the positions of each sentence, with or without heads.
  Var normalized(const Var& e, const Mask& mask) const {
    return options_.normalizer == Normalizer::sparsemax ? sparsemax(e, -2, mask)
                                                        : softmax(e, -2, mask);
  }
  AttentionResult attend_to_window(const Query& query, const Memory& memory) const;

  std::shared_ptr<const Score> score_;
  AttentionOptions options_;
  Var W_p_;  // (Q, Q), local_predictive only
  Var v_p_;  // (Q)
};

}  // namespace attune::nn
