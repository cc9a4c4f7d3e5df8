#include <array>
#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/attention.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/score.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// v · tanh(...) starts with a variance near that of its argument.
Var add_v(const Scope& scope, Index attention) {
  return scope.add("v_a", {attention}, init::normal(1 / std::sqrt(static_cast<double>(attention))));
}

/// Undefined without coverage.
Var add_w_c(const Scope& scope, Index n, Coverage coverage = Coverage::summed) {
  return coverage == Coverage::none ? Var() : scope.add("w_c", {n}, init::normal(0.01));
}

/// v · tanh(q + k), with the coverage if there is one and the score has a w_c.
Var tanh_scores(const Var& q, const Var& k, const Var& v, const Var& coverage, const Var& w_c) {
  return coverage.defined() && w_c.defined() ? covered_additive_scores(q, k, v, coverage, w_c)
                                             : additive_scores(q, k, v);
}

}  // namespace

AdditiveScore::AdditiveScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o)
    : Score(scope),
      W_a_(scope.add("W_a", {query, o.attention}, init::glorot())),
      U_a_(scope.add("U_a", {memory, o.attention}, init::glorot())),
      v_a_(add_v(scope, o.attention)),
      w_c_(add_w_c(scope, o.attention, o.coverage)) {}

Keys AdditiveScore::keys(const Var& memory, const Tensor& mask) const {
  return {.k = matmul(memory, U_a_), .mask = mask};
}

Var AdditiveScore::operator()(const Query& query, const Keys& keys) const {
  return tanh_scores(matmul(query.state, W_a_), keys.k, v_a_, query.past.coverage, w_c_);
}

LocationAwareScore::LocationAwareScore(const Scope& scope, Index query, Index memory,
                                       const ScoreOptions& o)
    : Score(scope),
      radius_(o.location_aware.radius),
      W_a_(scope.add("W_a", {query, o.attention}, init::glorot())),
      U_a_(scope.add("U_a", {memory, o.attention}, init::glorot())),
      b_a_(scope.add("b_a", {o.attention}, init::zeros())),
      v_a_(add_v(scope, o.attention)) {
  const Index filters = o.location_aware.filters;
  if (filters < 1 || radius_ < 0) {
    fail("LocationAwareScore",
         fmt::format("{} filters of radius {}: at least 1 and 0 are expected", filters, radius_));
  }
  F_ = scope.add("F", {2 * radius_ + 1, filters}, init::glorot());
  U_f_ = scope.add("U_f", {filters, o.attention}, init::glorot());
}

Keys LocationAwareScore::keys(const Var& memory, const Tensor& mask) const {
  return {.k = add_matmul(b_a_, memory, U_a_), .mask = mask};
}

Var LocationAwareScore::operator()(const Query& query, const Keys& keys) const {
  const Var &alpha = query.past.weights, q = matmul(query.state, W_a_);
  if (!alpha.defined()) return additive_scores(q, keys.k, v_a_);
  const Var windows = unfold(reshape(alpha, {alpha.dim(0), alpha.dim(1), 1}),
                             {.width = 2 * radius_ + 1, .before = radius_, .after = radius_});
  Var f = matmul(windows, F_);  // (S, B, K)
  if (keys.positions.defined()) f = window(f, keys.positions);
  return additive_scores(q, add_matmul(keys.k, f, U_f_), v_a_);
}

Var DotScore::operator()(const Query& query, const Keys& keys) const {
  return dot_scores(query.state, keys.k);
}

Var ScaledDotScore::operator()(const Query& query, const Keys& keys) const {
  return DotScore::operator()(query, keys) / std::sqrt(static_cast<double>(query.state.dim(-1)));
}

GeneralScore::GeneralScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o)
    : DotScore(scope, query, memory, o), W_a_(scope.add("W_a", {query, memory}, init::glorot())) {}

Keys GeneralScore::keys(const Var& memory, const Tensor& mask) const {
  return {.k = matmul(memory, W_a_, {.b = true}), .mask = mask};
}

ConcatScore::ConcatScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o)
    : Score(scope), query_(query), form_(o.concat) {
  const bool full = form_ == ConcatForm::full;
  const Index attention = full ? o.attention : memory;
  W_a_ = scope.add("W_a", {full ? query + memory : query, attention}, init::glorot());
  v_a_ = add_v(scope, attention);
  w_c_ = add_w_c(scope, attention, o.coverage);
}

Keys ConcatScore::keys(const Var& memory, const Tensor& mask) const {
  if (form_ == ConcatForm::identity) return {.k = memory, .mask = mask};
  return {.k = matmul(memory, slice(W_a_, 0, query_, W_a_.dim(0))), .mask = mask};
}

Var ConcatScore::operator()(const Query& query, const Keys& keys) const {
  return tanh_scores(matmul(query.state, slice(W_a_, 0, 0, query_)), keys.k, v_a_,
                     query.past.coverage, w_c_);
}

LocationScore::LocationScore(const Scope& scope, Index query, Index, const ScoreOptions& o)
    : Score(scope), W_a_(scope.add("W_a", {query, o.longest}, init::glorot())) {}

Keys LocationScore::keys(const Var& memory, const Tensor& mask) const {
  if (memory.dim(0) > W_a_.dim(1)) {
    fail("LocationScore", fmt::format("the source has {} positions, but W_a {} has columns for {}",
                                      memory.dim(0), to_string(W_a_.shape()), W_a_.dim(1)));
  }
  return {.k = {}, .mask = mask};
}

Var LocationScore::operator()(const Query& query, const Keys& keys) const {
  const Var e = matmul(W_a_, query.state, {.a = true, .b = true});  // (longest, B)
  return keys.positions.defined() ? window(e, keys.positions) : slice(e, 0, 0, keys.mask.dim(0));
}

CosineScore::CosineScore(const Scope& scope, Index query, Index, const ScoreOptions&)
    : Score(scope), beta_(scope / "beta", query, 1) {}

Keys CosineScore::keys(const Var& memory, const Tensor& mask) const {
  return {.k = unit_vectors(memory), .mask = mask};
}

Var CosineScore::operator()(const Query& query, const Keys& keys) const {
  const Var beta = reshape(softplus(beta_(query.state)), {-1});  // (B)
  return beta * dot_scores(unit_vectors(query.state), keys.k);
}

MultiHeadScore::MultiHeadScore(const Scope& scope, Index query, Index memory, const ScoreOptions& o)
    : Score(scope),
      heads_(o.heads),
      scale_(std::sqrt(static_cast<double>(o.attention) / static_cast<double>(o.heads))) {
  if (heads_ < 1 || o.attention % heads_ != 0 || memory % heads_ != 0) {
    fail("MultiHeadScore",
         fmt::format("{} heads do not divide an attention of {} and a memory of {}", heads_,
                     o.attention, memory));
  }
  W_q_ = scope.add("W_q", {query, o.attention}, init::glorot());
  W_k_ = scope.add("W_k", {memory, o.attention}, init::glorot());
  W_v_ = scope.add("W_v", {memory, memory}, init::glorot());
}

Keys MultiHeadScore::keys(const Var& memory, const Tensor& mask) const {
  return {.k = matmul(memory, W_k_), .mask = mask};
}

Var MultiHeadScore::operator()(const Query& query, const Keys& keys) const {
  return dot_scores(matmul(query.state, W_q_), keys.k, heads_) / scale_;
}

Var MultiHeadScore::read(const Var& memory) const { return matmul(memory, W_v_); }

CoveredScore::CoveredScore(const Scope& scope, std::shared_ptr<const Score> score, Index query)
    : Score(scope), score_(std::move(score)), w_c_(add_w_c(scope, query)) {}

Keys CoveredScore::keys(const Var& memory, const Tensor& mask) const {
  return score_->keys(memory, mask);
}

Var CoveredScore::operator()(const Query& query, const Keys& keys) const {
  const Var e = (*score_)(query, keys);
  return query.past.coverage.defined() ? e + query.past.coverage * sum(query.state * w_c_, {-1})
                                       : e;
}

Var CoveredScore::read(const Var& memory) const { return score_->read(memory); }

namespace {

template <class AnyScore>
std::shared_ptr<const Score> make(const Scope& scope, Index query, Index memory,
                                  const ScoreOptions& o) {
  return std::make_shared<AnyScore>(scope, query, memory, o);
}

constexpr auto kinds = std::to_array<ScoreKind>({
    {"additive", false, make<AdditiveScore>},
    {"dot", true, make<DotScore>},
    {"scaled_dot", true, make<ScaledDotScore>},
    {"general", false, make<GeneralScore>},
    {"concat", false, make<ConcatScore>},
    {"location", false, make<LocationScore>},
    {"cosine", true, make<CosineScore>},
    {"multi_head", false, make<MultiHeadScore>},
    {"location_aware", false, make<LocationAwareScore>},
});

}  // namespace

std::span<const ScoreKind> score_kinds() { return kinds; }

const ScoreKind& score_kind(std::string_view name) {
  std::string all;
  for (const ScoreKind& kind : kinds) {
    if (name == kind.name) return kind;
    all += all.empty() ? kind.name : fmt::format(", {}", kind.name);
  }
  fail("score", fmt::format("'{}' is not one of {}", name, all));
}

std::shared_ptr<const Score> make_score(const Scope& scope, Index query, Index memory,
                                        const ScoreOptions& o) {
  const ScoreKind& kind = score_kind(o.kind);
  if (kind.direct && query != memory) {
    fail(
        "score",
        fmt::format("{} needs a state and annotations of the same size, not {} and {}: use general "
                    "or another score with weights",
                    kind.name, query, memory));
  }
  auto score = kind.make(scope, query, memory, o);
  if (o.coverage == Coverage::none || score->uses_coverage()) return score;
  return std::make_shared<CoveredScore>(scope, std::move(score), query);
}

}  // namespace attune::nn
