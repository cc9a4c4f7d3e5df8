#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/attention.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/nn/transformer.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

double or_else(double rate, double otherwise) { return rate < 0 ? otherwise : rate; }

/// One query of each sentence, with its weights (K, S, B).
MultiHeadResult attend_once(const Var& q, const Var& kv, const FusedAttentionOptions& o) {
  const std::vector<Var> k_v = split(kv, {q.dim(-1), q.dim(-1)}, -1);
  const Var scores = dot_scores(q[0], k_v[0], o.heads);
  const double a = static_cast<double>(q.dim(-1) / o.heads);
  const Var alpha = softmax(scores / std::sqrt(a), -2, o.mask);
  return {reshape(weighted_sum(alpha, k_v[1]), q.shape()), alpha};
}

/// Of q (T, B, D), which was multiplied by W_q: what W_o then multiplies.
MultiHeadResult attend(const Var& q, const Var& kv, const Tensor& mask, Weights weights,
                       const MultiHeadOptions& options) {
  ShapeCheck check("MultiHeadAttention");
  check("query", q.shape(), "T B D")("keys and values", kv.shape(), "S B 2D");
  if (mask.defined()) check("mask", mask.shape(), "S B");
  FusedAttentionOptions o{
      .heads = options.heads, .causal = options.causal == Causal::yes, .mask = mask};
  if (Random* random = Training::random(); random && options.dropout > 0) {
    o.dropout = options.dropout;
    o.random = *random;
    *random =
        random->ahead(static_cast<std::uint64_t>(check['T'] * check['B'] * o.heads * check['S']));
  }
  if (weights == Weights::no) return {attention(q, kv, o), {}};
  if (q.dim(0) == 1 && o.dropout == 0) {
    const auto [read, alpha] = attend_once(q, kv, o);
    return {read, reshape(alpha, alpha.shape().inserted(0, 1))};
  }
  const auto [read, alpha] = reference::attention(q, kv, o);
  return {read, permute(alpha, {2, 1, 3, 0})};
}

/// (sin, cos) of section 3.5, of the places begin .. end - 1
Tensor sinusoids(Index begin, Index end, Index size) {
  Tensor table = zeros({end - begin, size}, DType::f64);
  double* p = table.mutable_data<double>();
  for (Index t = begin; t < end; ++t) {
    for (Index i = 0; i < size; ++i) {
      const double wavelength = std::pow(10000.0, static_cast<double>(i / 2 * 2) / size);
      const double angle = static_cast<double>(t) / wavelength;
      *p++ = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Scope& scope, Index size,
                                       const MultiHeadOptions& options, Index memory)
    : options_(options),
      query_(scope / "query", size, size, {.bias = options.bias}),
      memory_(scope / "memory", memory > 0 ? memory : size, 2 * size,
              {.bias = options.bias, .weight_init = init::glorot(2)}),
      output_(scope / "output", size, size, {.bias = options.bias}),
      path_(scope.path()) {
  if (options.heads < 1 || size % options.heads != 0) {
    fail("MultiHeadAttention",
         fmt::format("{} heads do not divide a size of {}", options.heads, size));
  }
  Dropout check(options.dropout);
}

MultiHeadResult MultiHeadAttention::operator()(const Var& query, const Var& keys_values,
                                               const Tensor& mask, Weights weights) const {
  const Var q = query_(query);
  const auto [read, alpha] =
      detail::in_layer(path_, [&] { return attend(q, keys_values, mask, weights, options_); });
  return {output_(read), alpha};
}

Positions::Positions(const Scope& scope, Index size, PositionKind kind, Index longest)
    : learnt_(kind == PositionKind::learnt), path_(scope.path()) {
  table_ = learnt_ ? scope.add("P", {longest, size}, init::normal(0.02))
                   : Var(sinusoids(0, longest, size).to(scope.dtype()));
}

Var Positions::operator()(const Var& x, Index begin) const {
  ShapeCheck check("Positions");
  check("x", x.shape(), "T B D")("table", table_.shape(), "L D");
  const Index end = begin + check['T'], longest = check['L'], size = check['D'];
  if (end > longest && learnt_) {
    fail("Positions",
         fmt::format("{} has vectors of {} places, but there are {}", path_, longest, end));
  }
  const Var places =
      end > longest ? Var(sinusoids(begin, end, size).to(x.dtype())) : slice(table_, 0, begin, end);
  return x + reshape(places, {end - begin, 1, size});
}

FeedForward::FeedForward(const Scope& scope, Index size, Index inner, Nonlinearity f,
                         double dropout, bool bias)
    : inner_(scope / "inner", size, inner, {.bias = bias}),
      outer_(scope / "outer", inner, size, {.bias = bias}),
      f_(f),
      dropout_(dropout) {}

Var FeedForward::operator()(const Var& x) const {
  const Var h = inner_(x);
  return outer_(dropout_(f_ == Nonlinearity::relu ? relu(h) : gelu(h)));
}

TransformerLayer::TransformerLayer(const Scope& scope, const TransformerLayerOptions& o,
                                   Causal causal, Index memory)
    : norm_(o.norm),
      self_(scope / "self", o.size,
            {o.heads, causal, or_else(o.attention_dropout, o.dropout), o.bias}),
      feed_forward_(scope / "feed", o.size, o.inner, o.nonlinearity,
                    or_else(o.inner_dropout, o.dropout), o.bias),
      self_norm_(scope / "self_norm", o.size),
      feed_norm_(scope / "feed_norm", o.size),
      dropout_(o.dropout),
      path_(scope.path()) {
  if (memory == 0) return;
  cross_.emplace(
      scope / "cross", o.size,
      MultiHeadOptions{o.heads, Causal::no, or_else(o.attention_dropout, o.dropout), o.bias},
      memory);
  cross_norm_.emplace(scope / "cross_norm", o.size);
}

TransformerLayer::Memory TransformerLayer::remember(const Var& h, const Tensor& mask) const {
  if (!cross_) fail("TransformerLayer", path_ + " attends to no memory");
  return {cross_->remember(h), mask};
}

TransformerLayer::Result TransformerLayer::operator()(Var x, const Tensor& mask,
                                                      const Memory& memory, const Var& kept,
                                                      Weights weights) const {
  Result result;
  const auto add = [&](const LayerNorm& norm, auto part) {
    x = norm_ == Norm::before ? x + dropout_(part(norm(x))) : norm(x + dropout_(part(x)));
  };
  add(self_norm_, [&](const Var& n) {
    const Var now = self_.remember(n);
    result.kept = kept.defined() ? concat({kept, now}, 0) : now;
    return self_(n, result.kept, mask).y;
  });
  if (cross_) {
    add(*cross_norm_, [&](const Var& n) {
      auto [y, alpha] = (*cross_)(n, memory.keys_values, memory.mask, weights);
      result.weights = std::move(alpha);
      return y;
    });
  }
  add(feed_norm_, [&](const Var& n) { return feed_forward_(n); });
  result.y = x;
  return result;
}

}  // namespace attune::nn
