#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <attune/nn/attention.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::nn {
namespace {

template <class AnyScore>
std::shared_ptr<const Score> make(const Scope& scope, Index query, Index memory,
                                  const ScoreOptions& o) {
  return std::make_shared<AnyScore>(scope, query, memory, o);
}

constexpr auto scores = std::to_array<ScoreKind>({
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

template <class AnyNormalizer>
std::shared_ptr<const Normalizer> make(const Scope&, Index) {
  return std::make_shared<AnyNormalizer>();
}

constexpr auto normalizers = std::to_array<NormalizerKind>({
    {"softmax", make<Softmax>},
    {"sparsemax", make<Sparsemax>},
});

/// The entry of a table. Throws if there is none of that name.
const auto& entry_of(const auto& kinds, const char* what, std::string_view name) {
  std::string all;
  for (const auto& kind : kinds) {
    if (name == kind.name) return kind;
    all += all.empty() ? kind.name : fmt::format(", {}", kind.name);
  }
  fail(what, "{} is not one of {}", in_quotes(name), all);
}

/// Mean over the heads (S, B), checked against the coverage's shape.
Var checked_mean(const Var& weights, const Var& coverage) {
  const Var seen = mean_of_heads(weights);
  ShapeCheck check("coverage");
  check("weights", seen, "S B");
  if (coverage.defined()) check("coverage", coverage, "S B");
  return seen;
}

/// The positions at most D = `half_width` from each sentence's centre: (W, B) i32, padded with -1,
/// W = min(2D + 1, S). centre (B), lengths (B), S = `steps`.
Tensor window_around(const Tensor& centre, const Tensor& lengths, Index half_width, Index steps) {
  const Index width = std::min(2 * std::min(half_width, steps) + 1, steps);
  const Tensor p = centre.to(DType::f64), n = lengths.to(DType::f64);
  const auto most = static_cast<double>(half_width);
  const Tensor first = maximum(ceil(p - most), 0.0);
  const Tensor positions = first + arange(width, DType::f64).reshape({width, 1});
  const Tensor inside = (positions <= p + most) * (positions < n);
  return where(inside, positions, -1.0).to(DType::i32);
}

AttentionResult attend(Normalized now, const Var& values) {
  return {weighted_sum(now.weights, values), now.weights, {.state = std::move(now.state)}};
}

/// Scatters x (W, B) or (heads, W, B) to its positions in (S, B) or (heads, S, B); 0 elsewhere.
Var unwindow_heads(const Var& x, const Tensor& positions, Index steps) {
  if (x.rank() == 2) return unwindow(x, positions, steps);
  return permute(unwindow(permute(x, {1, 2, 0}), positions, steps), {2, 0, 1});
}

}  // namespace

LocationAwareScore::LocationAwareScore(const Scope& scope, Integer query, Integer memory,
                                       const ScoreOptions& o)
    : Score(scope),
      radius_(o.radius),
      W_a_(scope.add("W_a", {query, o.attention}, init::glorot())),
      U_a_(scope.add("U_a", {memory, o.attention}, init::glorot())),
      b_a_(scope.add("b_a", {o.attention}, init::zeros())),
      v_a_(detail::add_v(scope, o.attention)) {
  if (o.filters < 1 || radius_ < 0)
    fail("LocationAwareScore", "{} filters of radius {}: at least 1 and 0 are expected", o.filters,
         radius_);
  F_ = scope.add("F", {2 * radius_ + 1, o.filters}, init::glorot());
  U_f_ = scope.add("U_f", {o.filters, o.attention}, init::glorot());
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

Var LocationScore::keys(const Var& memory) const {
  if (memory.dim(0) > W_a_.dim(1))
    fail("LocationScore", "the source has {} positions, but W_a {} has columns for {}",
         memory.dim(0), W_a_.shape(), W_a_.dim(1));
  return {};
}

MultiHeadScore::MultiHeadScore(const Scope& scope, Integer query, Integer memory,
                               const ScoreOptions& o)
    : Score(scope),
      heads_(o.heads),
      scale_(std::sqrt(static_cast<double>(o.attention) / static_cast<double>(o.heads))) {
  if (heads_ < 1 || o.attention % heads_ != 0 || memory % heads_ != 0)
    fail("MultiHeadScore", "{} heads do not divide an attention of {} and a memory of {}", heads_,
         o.attention, memory);
  W_q_ = scope.add("W_q", {query, o.attention}, init::glorot());
  W_k_ = scope.add("W_k", {memory, o.attention}, init::glorot());
  W_v_ = scope.add("W_v", {memory, memory}, init::glorot());
}

std::span<const ScoreKind> score_kinds() { return scores; }
std::span<const NormalizerKind> normalizer_kinds() { return normalizers; }

const ScoreKind& score_kind(std::string_view name) { return entry_of(scores, "score", name); }

std::shared_ptr<const Normalizer> make_normalizer(const Scope& scope, Integer query,
                                                  std::string_view name) {
  return entry_of(normalizers, "normalizer", name).make(scope, query);
}

std::shared_ptr<const Score> make_score(const Scope& scope, Integer query, Integer memory,
                                        const ScoreOptions& o) {
  const ScoreKind& kind = score_kind(o.kind);
  if (kind.direct && query != memory)
    fail("score",
         "{} requires a state and annotations of equal size, not {} and {}: "
         "use general or another score with parameters",
         kind.name, query, memory);
  auto score = kind.make(scope, query, memory, o);
  if (o.coverage == Coverage::none || score->uses_coverage()) return score;
  return std::make_shared<CoverageScore>(scope, std::move(score), query);
}

Var add_coverage(const Var& coverage, const Var& weights) {
  const Var seen = checked_mean(weights, coverage);
  return coverage.defined() ? coverage + seen : seen;
}

Var coverage_loss(const Var& weights, const Var& coverage) {
  const Var now = checked_mean(weights, coverage);
  if (!coverage.defined()) return zeros({now.dim(1)}, now.dtype());
  return sum(minimum(now, coverage), {0});
}

Memory select(const Memory& memory, const Tensor& rows) {
  const Tensor columns = gather(memory.columns, rows);
  if (columns.to_vector<std::int32_t>() == memory.columns.to_vector<std::int32_t>()) return memory;
  return {.h = select_columns(memory.h, rows),
          .keys = {.k = select_columns(memory.keys.k, rows),
                   .mask = Mask::unchecked(gather(memory.keys.mask, rows, 1))},
          .lengths = gather(memory.lengths, rows),
          .columns = columns};
}

AttentionState select(const AttentionState& past, const Tensor& rows) {
  AttentionState selected{past.steps, select_columns(past.coverage, rows),
                          select_columns(past.weights, rows)};
  for (const Var& x : past.state) selected.state.push_back(gather(x.value(), rows, -1));
  return selected;
}

Attention::Attention(std::shared_ptr<const Score> score, const Scope& scope, Integer query,
                     const AttentionOptions& options, std::shared_ptr<const Normalizer> normalizer)
    : score_(std::move(score)),
      normalizer_(normalizer ? std::move(normalizer)
                             : make_normalizer(scope, query, options.normalizer)),
      options_(options) {
  if (!score_) fail("Attention", "score is null");
  if (options.half_width < 1)
    fail("Attention", "half_width = {} is less than 1", options.half_width);
  if (options.window != Window::local_predictive) return;
  W_p_ = scope.add("W_p", {query, query}, init::glorot());
  v_p_ = scope.add("v_p", {query}, init::normal(1 / std::sqrt(static_cast<double>(query))));
}

Memory Attention::precompute(const Var& h, const Mask& mask) const {
  const InLayer layer(score_->path());
  ShapeCheck("attention")("h", h, "S B D")("mask", mask, "S B");
  if (options_.window != Window::global) require_padding_at_end(mask);
  const Mask used = mask.to(h.dtype());
  return {.h = score_->values(h),
          .keys = {.k = score_->keys(h), .mask = used},
          .lengths = sum(used, {0}),
          .columns = arange(mask.dim(1))};
}

AttentionResult Attention::operator()(const Query& query, const Memory& memory) const {
  const InLayer layer(score_->path());
  ShapeCheck check("attention");
  check("mask", memory.keys.mask, "S B")("query", query.state, "B Q");
  if (query.past.coverage.defined()) check("coverage", query.past.coverage, "S B");
  if (query.past.weights.defined()) check("weights", query.past.weights, "S B");
  const bool global = options_.window == Window::global;
  AttentionResult read =
      global ? attend(normalized(query, memory.keys), memory.h) : attend_to_window(query, memory);
  auto& [context, weights, next] = read;
  next.steps = query.past.steps + 1;
  if (score_->uses_coverage()) next.coverage = add_coverage(query.past.coverage, weights);
  if (score_->uses_weights()) next.weights = mean_of_heads(weights);
  return read;
}

Normalized Attention::normalized(const Query& query, const Keys& keys) const {
  ShapeCheck check("attention");
  check("mask", keys.mask, "S B");
  const Var scores = (*score_)(query, keys);
  if (scores.defined()) check("scores", scores, "... S B");
  Normalized now = (*normalizer_)(scores, query, keys);
  check("weights", now.weights, "... S B");
  for (const Var& x : now.state) check("state", x, "... B");
  return now;
}

AttentionResult Attention::attend_to_window(const Query& query, const Memory& memory) const {
  const bool predictive = options_.window == Window::local_predictive;
  // p_t (B), differentiable only if predicted; else min(t, length - 1)
  const Var centre =
      predictive ? memory.lengths * sigmoid(sum(tanh(matmul(query.state, W_p_)) * v_p_, {-1}))
                 : minimum(memory.lengths - 1.0, static_cast<double>(query.past.steps));
  const Tensor positions =
      window_around(centre.value(), memory.lengths, options_.half_width, memory.keys.mask.dim(0));
  const Mask inside = Mask::unchecked(greater_equal(positions, 0).to(centre.dtype()));
  const Var& k = memory.keys.k;
  const Keys keys{
      .k = k.defined() ? window(k, positions) : k, .mask = inside, .positions = positions};
  Query in_window = query;
  const Var& coverage = query.past.coverage;
  if (coverage.defined()) in_window.past.coverage = window(coverage, positions);
  Normalized now = normalized(in_window, keys);
  Var& weights = now.weights;
  if (predictive) {
    const double sigma = static_cast<double>(options_.half_width) / 2;
    const Var distance = positions.to(centre.dtype()) * inside - centre;
    weights = weights * exp(distance * distance * (-1 / (2 * sigma * sigma)));
  }
  AttentionResult read = attend(std::move(now), window(memory.h, positions));
  read.weights = unwindow_heads(read.weights, positions, memory.keys.mask.dim(0));
  return read;
}

}  // namespace attune::nn
