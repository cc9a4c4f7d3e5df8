#include <algorithm>
#include <atomic>
#include <numeric>

#include <fmt/format.h>

#include <attune/autograd/record.hpp>
#include <attune/nn/transformer.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/functions.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::nn {
namespace {

/// q = x W_q (T, B, D), kv = [h W_k, h W_v] -> concatenated contexts of the heads, before W_o.
MultiHeadResult attend(const Var& q, const Var& kv, const Layout& keys, Weights weights,
                       const MultiHeadOptions& options, const Layout& queries,
                       const PairOptions& pairs) {
  ShapeCheck check("MultiHeadAttention");
  if (queries.rows.defined()) check("the queries' rows", queries.rows, "T B");
  if (keys.rows.defined()) check("the keys' rows", keys.rows, "S B");
  check("query", q.shape(), queries.rows.defined() ? "N D" : "T B D");
  check("keys and values", kv.shape(),
        fmt::format("{} {}", keys.rows.defined() ? "M" : "S B",
                    options.kv_heads * (options.head_size + options.value_size)));
  if (keys.mask.defined()) check("mask", keys.mask, "S B");
  FusedAttentionOptions o{.heads = options.heads,
                          .kv_heads = options.kv_heads,
                          .value_size = options.value_size,
                          .causal = options.causal == Causal::yes,
                          .mask = keys.mask,
                          .attention_mask = pairs.mask,
                          .query_rows = queries.rows,
                          .key_rows = keys.rows};
  if (Random* random = Training::random(); random && options.dropout > 0) {
    o.dropout = options.dropout;
    o.random = *random;
    *random =
        random->ahead(static_cast<std::uint64_t>(check['T'] * check['B'] * o.heads * check['S']));
  }
  const Var y = attention(q, kv, o, pairs.bias);
  if (weights == Weights::no) return {y, {}};
  return {y, attention_weights(queries.unpack(q), keys.unpack(kv), o, weights, pairs.bias)};
}

/// Replaces sizes of 0 by their defaults. Throws unless the sizes fit.
MultiHeadOptions checked(MultiHeadOptions o, Index size) {
  const attune::detail::Heads heads(
      "MultiHeadAttention", {.heads = o.heads, .kv_heads = o.kv_heads, .value_size = o.value_size},
      o.head_size == 0 ? size : o.heads * o.head_size);
  o.kv_heads = heads.g, o.head_size = heads.a, o.value_size = heads.a_v;
  if (o.head_size < 1 || o.value_size < 1 || (o.rotary != 0 && o.head_size % 2 != 0))
    fail("MultiHeadAttention", "head_size = {}, value_size = {}: {} expected", o.head_size,
         o.value_size, o.rotary != 0 ? "an even size of the head was" : "sizes above 0 were");
  return o;
}

/// Positional encodings (section 3.5) of the positions begin .. end - 1: (end - begin, size)
Tensor sinusoids(Index begin, Index end, Index size) {
  Tensor table = zeros({end - begin, size}, DType::f64);
  double* p = table.mutable_data<double>();
  for (Index t = begin; t < end; ++t) {
    for (Index i = 0; i < size; ++i) {
      const double wavelength = simd::power(10000.0, i / 2 * 2 / static_cast<double>(size));
      const double angle = static_cast<double>(t) / wavelength;
      *p++ = i % 2 == 0 ? simd::sin(angle) : simd::cos(angle);
    }
  }
  return table;
}

}  // namespace

Layout Layout::packed(const Mask& mask) {
  ShapeCheck("Layout")("mask", mask, "T B");
  const std::vector<float> used = mask.to_vector<float>();
  std::vector<std::int32_t> rows, positions;
  for (std::size_t i = 0; i < used.size(); ++i) {
    rows.push_back(used[i] != 0 ? static_cast<std::int32_t>(positions.size()) : -1);
    if (used[i] != 0) positions.push_back(static_cast<std::int32_t>(i));
  }
  Layout layout;
  if (positions.size() == used.size()) return layout;
  layout.rows = Tensor::of<std::int32_t>(mask.shape(), rows);
  layout.positions_ = Tensor::of<std::int32_t>({std::ssize(positions)}, positions);
  return layout;
}

Var Layout::pack(const Var& x) const {
  if (!rows.defined()) return x;
  ShapeCheck("Layout")("x", x, "T B D")("rows", rows, "T B");
  return gather(reshape(x, {-1, x.dim(-1)}), positions_);
}

Var Layout::unpack(const Var& x) const {
  if (!rows.defined()) return x;
  ShapeCheck("Layout")("x", x, "N D")("positions", positions_, "N");
  const Tensor padded = zeros({rows.size(), x.dim(-1)}, x.dtype());
  return reshape(scatter_add(padded, positions_, x), rows.shape().inserted(2, x.dim(-1)));
}

Tensor Layout::positions(Integer begin, Integer steps) const {
  if (!rows.defined()) return arange(steps) + begin;
  std::vector<std::int32_t> at = positions_.to_vector<std::int32_t>();
  for (std::int32_t& i : at) i = static_cast<std::int32_t>(begin + i / rows.dim(1));
  return Tensor::of<std::int32_t>(positions_.shape(), at);
}

KeyValueCache KeyValueCache::of_memory(const Var& keys_values, const Mask& mask) {
  ShapeCheck check("KeyValueCache");
  check("keys and values", keys_values, "S B W")("mask", mask, "S B");
  const Tensor all = arange(mask.size()).reshape(mask.shape());
  return {reshape(keys_values, {-1, check['W']}), where(mask, all, -1.0)};
}

/// Rows [0, used) are in use by at least one cache, and do not change.
struct KeyValueCache::Memory {
  explicit Memory(const Shape& shape, DType dtype)
      : rows(Tensor::uninitialized(shape, dtype, "KeyValueCache")), bytes(mutable_bytes_of(rows)) {}
  Tensor rows;
  std::span<std::byte> bytes;
  std::atomic<Index> used = 0;
};

void KeyValueCache::append(const Var& entries) {
  constexpr Index first_positions = 16;  // before the memory is enlarged for the first time
  ShapeCheck check("KeyValueCache");
  check("entries", entries, "B W");
  const Index b = check['B'], w = check['W'], n = keys_values.defined() ? keys_values.dim(0) : 0;
  if (n > 0) check("keys and values", keys_values, "R W");
  if (rows.defined()) check("rows", rows, "S B");
  require_i32_indices("KeyValueCache", n + b);
  const Index s = rows.defined() ? rows.dim(0) : 0;
  Tensor all = Tensor::uninitialized({s + 1, b}, DType::i32);
  std::int32_t* const to = all.mutable_data<std::int32_t>();
  if (s > 0) std::copy_n(rows.data<std::int32_t>(), s * b, to);
  std::iota(to + s * b, to + (s + 1) * b, static_cast<std::int32_t>(n));
  rows = std::move(all);
  if (recorded(entries) || recorded(keys_values)) {
    keys_values = n == 0 ? entries : concat({keys_values, entries}, 0);
    return;
  }
  if (n > 0) require_same_dtype("KeyValueCache", keys_values.value(), entries.value());
  const auto put = [&](const Tensor& x, Index row) {
    const auto bytes = bytes_of(x);
    std::ranges::copy(
        bytes, memory_->bytes.begin() + row * std::ssize(bytes) / std::max<Index>(1, x.dim(0)));
  };
  Index end = n;  // another copy of the cache may have used the next rows
  const bool fits = n > 0 && memory_ && memory_->rows.shares_buffer_with(keys_values.value()) &&
                    n + b <= memory_->rows.dim(0) &&
                    memory_->used.compare_exchange_strong(end, n + b);
  if (!fits) {
    memory_ = std::make_shared<Memory>(Shape{std::max(first_positions * b, 2 * (n + b)), w},
                                       entries.dtype());
    if (n > 0) put(keys_values.value(), 0);
    memory_->used = n + b;
  }
  put(entries.value(), n);
  keys_values = memory_->rows.slice(0, n + b);
}

KeyValueCache select(const KeyValueCache& cache, const Tensor& rows) {
  KeyValueCache selected = cache;
  if (cache.rows.defined()) selected.rows = gather(cache.rows, rows, 1);
  return selected;
}

MultiHeadAttention::MultiHeadAttention(const Scope& scope, Integer size,
                                       const MultiHeadOptions& options, Integer memory)
    : options_(checked(options, size)),
      query_(scope / "query", size, options_.heads * options_.head_size),
      memory_(scope / "memory", memory == 0 ? size : memory,
              options_.kv_heads * (options_.head_size + options_.value_size),
              {.weight_init = init::glorot(options_.head_size == options_.value_size ? 2 : 1)}),
      output_(scope / "output", options_.heads * options_.value_size, size),
      path_(scope.path()) {
  require_dropout_rate(options.dropout);
}

Var MultiHeadAttention::rotated(const Var& x, const Layout& layout, Index begin,
                                Index heads) const {
  if (options_.rotary == 0) return x;
  return rotary(x, layout.positions(begin, x.dim(0)), heads, options_.head_size, options_.rotary);
}

Var MultiHeadAttention::precompute(const Var& memory, const Layout& layout, Integer begin) const {
  const Var kv = memory_(memory);
  const InLayer in(path_);
  return rotated(kv, layout, begin, options_.kv_heads);
}

MultiHeadResult MultiHeadAttention::operator()(const Var& query, const Var& keys_values,
                                               const Layout& keys, Weights weights,
                                               const Layout& queries,
                                               const PairOptions& pairs) const {
  const Var projected = query_(query);
  const InLayer layer(path_);
  const auto steps = [](const Var& x, const Layout& of) {
    return of.rows.defined() ? of.rows.dim(0) : x.dim(0);
  };
  const Index begin =
      options_.causal == Causal::yes ? steps(keys_values, keys) - steps(projected, queries) : 0;
  const Var q = rotated(projected, queries, begin, options_.heads);
  const auto [read, alpha] = attend(q, keys_values, keys, weights, options_, queries, pairs);
  return {output_(read), alpha};
}

MultiHeadResult MultiHeadAttention::step(const Var& query, const KeyValueCache& cache,
                                         const Var& bias, Weights weights) const {
  Var q = query_(query);
  const InLayer layer(path_);
  if (!cache.rows.defined()) fail("MultiHeadAttention", "the cache is empty");
  if (options_.rotary != 0) {
    const Var x = reshape(q, q.shape().inserted(0, 1));
    q = rotated(x, {}, cache.rows.dim(0) - 1, options_.heads)[0];
  }
  const bool drops = Training::random() && options_.dropout > 0;
  if (!drops && !recorded(q) && !recorded(bias) && !recorded(cache.keys_values)) {
    const AttentionStep step = attention_step(
        q.value(), cache.keys_values.value(), cache.rows,
        {.heads = options_.heads, .kv_heads = options_.kv_heads, .value_size = options_.value_size},
        bias.value(), weights != Weights::no);
    return {output_(step.y),
            weights == Weights::mean ? mean(step.weights, {0}) : Tensor(step.weights)};
  }
  const Mask seen = Mask::unchecked(cache.rows >= 0);
  const Var columns = gather(cache.keys_values, maximum(cache.rows, 0));  // any row where masked
  const auto [y, alpha] = attend(reshape(q, q.shape().inserted(0, 1)), columns, seen, weights,
                                 options_, {}, {.bias = bias});
  return {output_(y[0]), alpha.defined() ? alpha[0] : alpha};
}

PositionalEncoding::PositionalEncoding(Integer size, DType dtype, Integer cached)
    : table_(sinusoids(0, cached, size).to(dtype)) {}

Var PositionalEncoding::operator()(const Var& x, Integer begin) const {
  ShapeCheck check("PositionalEncoding");
  check("x", x, "T B D")("table", table_, "L D");
  if (begin < 0) fail("PositionalEncoding", "position {} is negative", begin);
  const Index end = begin + check['T'], size = check['D'];
  const Tensor p =
      end > check['L'] ? sinusoids(begin, end, size).to(x.dtype()) : table_.slice(begin, end);
  return x + p.reshape({end - begin, 1, size});
}

TransformerLayer::TransformerLayer(const Scope& scope, const TransformerLayerOptions& o,
                                   Causal causal, Integer memory)
    : norm_(o.norm),
      self_(scope / "self", o.size, {o.heads, causal, rate_or(o.attention_dropout, o.dropout)}),
      feed_forward_(scope / "feed", o.size, o.inner, o.nonlinearity,
                    rate_or(o.inner_dropout, o.dropout)),
      self_norm_(scope / "self_norm", o.size),
      feed_norm_(scope / "feed_norm", o.size),
      dropout_(o.dropout),
      path_(scope.path()) {
  if (memory == 0) return;
  cross_.emplace(scope / "cross", o.size,
                 MultiHeadOptions{o.heads, Causal::no, rate_or(o.attention_dropout, o.dropout)},
                 memory);
  cross_norm_.emplace(scope / "cross_norm", o.size);
}

TransformerLayer::Memory TransformerLayer::precompute(const Var& h, const Layout& layout) const {
  if (!cross_) fail("TransformerLayer", path_ + " has no cross-attention");
  return {cross_->precompute(h), layout};
}

/// Runs the blocks, each with its residual connection and normalisation.
template <class Self, class Cross>
TransformerLayer::Result TransformerLayer::run(Var x, bool has_memory, Self self,
                                               Cross cross) const {
  if (cross_ && !has_memory)
    fail("TransformerLayer", path_ + " has cross-attention, but there is no memory");
  Var weights;
  const auto add = [&](const LayerNorm& norm, auto part) {
    x = norm_ == Norm::before ? x + dropout_(part(norm(x))) : norm(x + dropout_(part(x)));
  };
  const auto attend_to_memory = [&](const Var& n) {
    const auto attended = cross(n);
    weights = attended.weights;
    return attended.y;
  };
  add(self_norm_, self);
  if (cross_) add(*cross_norm_, attend_to_memory);
  add(feed_norm_, feed_forward_);
  return {x, weights};
}

TransformerLayer::Result TransformerLayer::operator()(const Var& x, const Layout& layout,
                                                      const Memory& memory, Weights weights) const {
  return run(
      x, memory.keys_values.defined(), [&](const Var& n) { return self_.self(n, layout); },
      [&](const Var& n) {
        return (*cross_)(n, memory.keys_values, memory.layout, weights, layout);
      });
}

TransformerLayer::Result TransformerLayer::step(const Var& x, KeyValueCache& cache,
                                                const KeyValueCache& memory,
                                                Weights weights) const {
  const auto self = [&](const Var& n) {
    cache.append(self_.precompute(n));
    return self_.step(n, cache, {}, Weights::no).y;
  };
  return run(x, memory.rows.defined(), self,
             [&](const Var& n) { return cross_->step(n, memory, {}, weights); });
}

}  // namespace attune::nn
