// Attention: score functions (the relevance of each source position for the next target token),
// windows, weights, context vectors, and coverage.
#pragma once

#include <cmath>
#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <attune/autograd/attention_ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::nn {

/// Attention state carried between decoder steps, see AttentionResult::past.
struct AttentionState {
  Index steps = 0;  // number of previous steps
  // (S, B), averaged over heads; undefined means 0, also if the score does not use the tensor
  Var coverage = {};            // sum of the weights of all previous steps
  Var weights = {};             // weights of the previous step
  std::vector<Var> state = {};  // Normalized::state of the previous step; empty at the first step
};

/// The query of a score function.
struct Query {
  Var state;                 // (B, Q)
  AttentionState past = {};  // of the same sentences, before this step
};

/// Whether a score uses the coverage (Tu et al., 2016); with `none` it ignores `past.coverage`.
enum class Coverage { none, summed };

/// Score inputs derived from the memory. With a window, S is the number of positions in the window.
struct Keys {
  Var k;                  // (S, B, A), computed by Score::keys
  Mask mask;              // (S, B)
  Tensor positions = {};  // (S, B) i32 source positions, -1 for none; undefined means 0 .. S-1
};

/// Base class of score functions e = a(s, h), one score per source position. To add a score, derive
/// from it: `keys` computes what depends on the memory alone, the call operator the rest.
class Score {
 public:
  Score() = default;
  /// Error messages of attention end with the path of `scope`.
  explicit Score(const Scope& scope) : path_(scope.path()) {}
  virtual ~Score() = default;
  const std::string& path() const& { return path_; }
  const std::string& path() const&& = delete;

  /// Keys, computed once per sentence: (S, B, D) -> (S, B, A). By default the memory itself;
  /// undefined if the score does not use the memory.
  virtual Var keys(const Var& memory) const { return memory; }
  /// Scores of one step, computed once per target token -> e (S, B), or (heads, S, B).
  virtual Var operator()(const Query& query, const Keys& keys) const = 0;
  /// Whether the call operator reads `query.past.coverage` or `query.past.weights`.
  virtual bool uses_coverage() const { return false; }
  virtual bool uses_weights() const { return false; }
  /// Values, whose weighted sum is the context: (S, B, D) -> (S, B, D). By default the memory.
  virtual Var values(const Var& memory) const { return memory; }

 private:
  std::string path_;
};

/// The block of ConcatScore's W_a that multiplies the memory: learnt (`full`), or fixed to the
/// `identity`, so A is D, as in the experiments of Luong et al. (2015, section 5.3, footnote).
enum class ConcatForm { full, identity };

/// Options of all scores; each score ignores those of the others.
struct ScoreOptions {
  std::string kind = "additive";         // name for make_score, see score_kinds()
  Index attention = 256;                 // A of additive, concat, multi_head and location_aware
  Index heads = 4;                       // multi_head
  Index longest = 100;                   // location: maximum source length
  ConcatForm concat = ConcatForm::full;  // concat
  Coverage coverage = Coverage::none;    // additive and concat; with make_score, every kind
  Index filters = 10;                    // location_aware: K
  Index radius = 100;                    // location_aware: r; a filter is 2r + 1 positions wide
};

// Score functions. Each constructor takes a scope, the query size Q and the memory size D.

namespace detail {
/// The variance of the initial v makes that of v · tanh(...) close to that of its argument.
inline Var add_v(const Scope& scope, Index attention) {
  return scope.add("v_a", {attention}, init::normal(1 / std::sqrt(static_cast<double>(attention))));
}
/// Undefined without coverage.
inline Var add_w_c(const Scope& scope, Index n, Coverage coverage = Coverage::summed) {
  return coverage == Coverage::none ? Var() : scope.add("w_c", {n}, init::normal(0.01));
}
}  // namespace detail

/// e_ij = v_a · tanh(s_{i-1} W_a + h_j U_a + coverage_ij w_c)   (Bahdanau et al., 2014, A.1.2; the
/// last term, if enabled, is that of Tu et al., 2016): reference::additive_scores.
class AdditiveScore : public Score {
 public:
  AdditiveScore(const Scope& scope, Integer query, Integer memory, const ScoreOptions& o = {})
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

/// The additive score with convolutional features of the previous step's weights as a further input
/// (Chorowski et al., 2015, equations 8 and 9):
///     f_i = F ∗ α_{i-1},   e_ij = v_a · tanh(s_{i-1} W_a + h_j U_a + f_ij U_f + b_a)
/// The convolution pads the source with zeros, and α_0 = 0. f does not depend on the window.
class LocationAwareScore : public Score {
 public:
  /// Throws unless filters >= 1 and radius >= 0.
  LocationAwareScore(const Scope& scope, Integer query, Integer memory, const ScoreOptions& o = {});

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
  DotScore(const Scope& scope, Integer, Integer, const ScoreOptions& = {}) : Score(scope) {}

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

/// e_ts = h_t W_a · h_s   (Luong et al., 2015, section 3.1, "general"). Computes the keys h_s W_aᵀ
/// once per sentence.
class GeneralScore : public DotScore {
 public:
  GeneralScore(const Scope& scope, Integer query, Integer memory, const ScoreOptions& o = {})
      : DotScore(scope, query, memory, o),
        W_a_(scope.add("W_a", {query, memory}, init::glorot())) {}

  /// h W_aᵀ: (S, B, D) -> (S, B, Q)
  Var keys(const Var& memory) const override { return matmul(memory, W_a_, {.b = true}); }

 private:
  Var W_a_;  // (Q, D)
};

/// e_ts = v_a · tanh([h_t; h_s] W_a) (Luong et al., 2015, section 3.1, "concat"). Equals
/// AdditiveScore, with coverage too, for one W_a whose rows 0 .. Q-1 multiply h_t, the others h_s.
class ConcatScore : public Score {
 public:
  ConcatScore(const Scope& scope, Integer query, Integer memory, const ScoreOptions& o = {})
      : Score(scope), query_(query), form_(o.concat) {
    const bool full = form_ == ConcatForm::full;
    const Index attention = full ? o.attention : Index{memory};
    W_a_ = scope.add("W_a", {full ? query + memory : query_, attention}, init::glorot());
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

/// e_ts = (h_t W_a)_s   (Luong et al., 2015, equation 8, "location"): depends on the position s,
/// not on the memory. W_a has one column per position, for sources of up to `longest` positions.
/// `keys` throws on a longer source.
class LocationScore : public Score {
 public:
  LocationScore(const Scope& scope, Integer query, Integer, const ScoreOptions& o = {})
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
  CosineScore(const Scope& scope, Integer query, Integer, const ScoreOptions& = {})
      : Score(scope), beta_(scope / "beta", query, 1) {}

  Var keys(const Var& memory) const override { return unit_vectors(memory); }
  Var operator()(const Query& query, const Keys& keys) const override {
    const Var beta = reshape(softplus(beta_(query.state)), {-1});  // (B)
    return beta * dot_scores(unit_vectors(query.state), keys.k);
  }

 private:
  Linear beta_;  // (Q, 1)
};

/// Multi-head attention: e_kts = (h_t W_q)_k · (h_s W_k)_k / √(A / K) for head k of K, with the
/// values (h_s W_v)_k (Vaswani et al., 2017, section 3.2.2). The context concatenates the contexts
/// of all heads. The paper's output projection W_O is not included.
class MultiHeadScore : public Score {
 public:
  /// Throws unless `heads` divides both the attention's size and the memory's.
  MultiHeadScore(const Scope& scope, Integer query, Integer memory, const ScoreOptions& o = {});

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

/// Adds coverage to any score e, for every head alike: e_j + coverage_j (s · w_c).
class CoverageScore : public Score {
 public:
  CoverageScore(const Scope& scope, std::shared_ptr<const Score> score, Integer query)
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

/// A score function by name. To add one, add an entry to the table in attention.cpp.
struct ScoreKind {
  const char* name;
  /// True if the score compares state and annotations without parameters, so Q must equal D.
  bool direct;
  /// Constructs the score. If it ignores options.coverage, make_score adds a CoverageScore.
  std::shared_ptr<const Score> (*make)(const Scope& scope, Index query, Index memory,
                                       const ScoreOptions& options);
};

/// additive, dot, scaled_dot, general, concat, location, cosine, multi_head and location_aware.
std::span<const ScoreKind> score_kinds();

/// Throws if score_kinds() has no such name.
const ScoreKind& score_kind(std::string_view name);

/// Constructs the score options.kind. With options.coverage, additive and concat add the coverage
/// inside the tanh; other kinds are wrapped in a CoverageScore. Throws on an unknown kind, on sizes
/// that differ if the kind is `direct`, and as the score's constructor does.
std::shared_ptr<const Score> make_score(const Scope& scope, Integer query, Integer memory,
                                        const ScoreOptions& options);

/// The weights of one step, and what the normalizer needs at the next one.
struct Normalized {
  Var weights;                  // (S, B), or (heads, S, B); 0 where the mask is 0
  std::vector<Var> state = {};  // tensors whose last axis is the batch, for `query.past.state`
};

/// Base class of the functions from scores to weights. To add one, derive from it.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// e (S, B) or (heads, S, B), undefined without a score. With a window, S is the number of its
  /// positions, `keys.positions`; the state is that of the previous step, which may have had others.
  virtual Normalized operator()(const Var& e, const Query& query, const Keys& keys) const = 0;
};

/// α_i = softmax(e_i)
struct Softmax : Normalizer {
  Normalized operator()(const Var& e, const Query&, const Keys& keys) const override {
    return {softmax(e, -2, keys.mask)};
  }
};

/// α_i = sparsemax(e_i)  (Martins and Astudillo, 2016), exactly 0 at most positions
struct Sparsemax : Normalizer {
  Normalized operator()(const Var& e, const Query&, const Keys& keys) const override {
    return {sparsemax(e, -2, keys.mask)};
  }
};

/// A normalizer by name. To add one, add an entry to the table in attention.cpp.
struct NormalizerKind {
  const char* name;
  std::shared_ptr<const Normalizer> (*make)(const Scope& scope, Index query);
};

/// softmax and sparsemax.
std::span<const NormalizerKind> normalizer_kinds();

/// Throws if normalizer_kinds() has no such name.
std::shared_ptr<const Normalizer> make_normalizer(const Scope& scope, Integer query,
                                                  std::string_view name);

// Coverage: the sum of the attention weights of all previous steps. With ScoreOptions::coverage,
// scores use it and Attention updates it. The coverage loss needs a sum of its own:
//
//     loss = loss + sum(coverage_loss(weights, coverage));
//     coverage = add_coverage(coverage, weights);

/// Mean over the heads: (heads, S, B) -> (S, B). Returns weights (S, B) unchanged.
inline Var mean_of_heads(const Var& weights) {
  return weights.rank() == 3 ? mean(weights, {0}) : weights;
}

/// coverage + mean_of_heads(weights)  (See et al., 2017, equation 10): weights (S, B) or
/// (heads, S, B), coverage (S, B), or undefined for 0 -> (S, B). Throws on other shapes.
Var add_coverage(const Var& coverage, const Var& weights);

/// Σ_s min(α_s, coverage_s)  (See et al., 2017, equation 12) of each sentence, shapes as for
/// add_coverage -> (B). Zeros if the coverage is undefined. Padding adds 0, as its weights are 0.
Var coverage_loss(const Var& weights, const Var& coverage);

/// A source to attend to, as computed once by Attention::precompute.
struct Memory {
  Var h;           // (S, B, D): values, see Score::values
  Keys keys;       // with the mask (S, B): 1 on tokens, 0 on padding
  Tensor lengths;  // (B), of the mask's dtype: number of tokens of each sentence
  Tensor columns;  // (B) i32: index of each sentence in the batch of Attention::precompute
};

/// Gathers columns of the batch by index (i32, repetition allowed): (S, B, ...) -> (S, rows, ...).
/// For search: no gradient is recorded. Returns the memory unchanged if each column gets a
/// hypothesis of the same sentence as before.
Memory select(const Memory& memory, const Tensor& rows);
AttentionState select(const AttentionState& past, const Tensor& rows);

/// Result of one attention step.
struct AttentionResult {
  Var context;          // (B, D)
  Var weights;          // (S, B), or (heads, S, B); exactly 0 on padding and outside of a window
  AttentionState past;  // for the next step
};

/// The source positions that a step attends to (Luong et al., 2015, section 3.2). With
/// D = `half_width`:
///  * global: all positions;
///  * local_monotonic (local-m): p_t - D .. p_t + D, where p_t = min(t, S - 1);
///  * local_predictive (local-p): p_t - D .. p_t + D, where p_t = S · σ(v_p · tanh(h_t W_p)),
///    equation 9; the weights are multiplied by exp(-(s - p_t)² / 2σ²) with σ = D / 2, equation 10,
///    and not normalised again.
/// S is the length of the sentence; positions and steps t count from 0. Scores are computed inside
/// the window only.
enum class Window { global, local_monotonic, local_predictive };

struct AttentionOptions {
  Window window = Window::global;
  Index half_width = 10;               // D
  std::string normalizer = "softmax";  // name for make_normalizer
};

/// Attention with any score and normalizer, over the positions of the window (Bahdanau et al.,
/// 2014, equations 6 and 5):
///     α_i = normalizer(e_i),   c_i = Σ_j α_ij values_j
/// Annotations h at padding have no influence, but must be finite.
class Attention {
 public:
  /// Global attention. It has no parameters besides those of the score and the normalizer.
  template <std::derived_from<Score> AnyScore, std::derived_from<Normalizer> Any = Softmax>
  explicit Attention(AnyScore score, Any normalizer = {})
      : score_(std::make_shared<const AnyScore>(std::move(score))),
        normalizer_(std::make_shared<const Any>(std::move(normalizer))) {}

  /// Without a score: the normalizer computes the weights from query and positions.
  template <std::derived_from<Normalizer> Any>
  explicit Attention(Any normalizer) : Attention(NoScore(), std::move(normalizer)) {}

  /// Attention with options, and with a score chosen at run time, see make_score. `query` is Q. A
  /// `normalizer` replaces that of the options. A local_predictive window adds the parameters W_p
  /// and v_p to `scope`. Throws if half_width < 1.
  Attention(std::shared_ptr<const Score> score, const Scope& scope, Integer query,
            const AttentionOptions& options, std::shared_ptr<const Normalizer> normalizer = {});

  /// Computes keys and values, once per sentence: annotations h (S, B, D), mask (S, B). Throws on
  /// other shapes and, with a window, on a mask that is not 1 up to a length and 0 after it.
  Memory precompute(const Var& h, const Mask& mask) const;

  /// Computes context, weights and the state of the next step, once per target token. Throws on
  /// shapes that do not fit.
  AttentionResult operator()(const Query& query, const Memory& memory) const;

 private:
  struct NoScore : Score {
    Var keys(const Var&) const override { return {}; }
    Var operator()(const Query&, const Keys&) const override { return {}; }
  };
  /// Scores and weights of the positions of `keys`.
  Normalized normalized(const Query& query, const Keys& keys) const;
  AttentionResult attend_to_window(const Query& query, const Memory& memory) const;

  std::shared_ptr<const Score> score_;
  std::shared_ptr<const Normalizer> normalizer_;
  AttentionOptions options_;
  Var W_p_;  // (Q, Q), local_predictive only
  Var v_p_;  // (Q)
};

}  // namespace attune::nn
