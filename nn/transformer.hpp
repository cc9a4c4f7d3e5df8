// Layers of the Transformer ("Attention is all you need", Vaswani et al., 2017): multi-head
// attention, positions, the feed-forward block, and the layer that they make.
#pragma once

#include <optional>

#include <attune/nn/layers.hpp>

namespace attune::nn {

/// Whether a position may attend to later ones.
enum class Causal { no, yes };

/// Whether attention returns its weights, which it does not compute as such otherwise: those of each
/// head or their mean.
enum class Weights { no, per_head, mean };

/// How the tokens of a batch are arranged: padded, x (T, B, D), with a mask or without, or packed,
/// x (N, D), without padding, which then costs nothing in layers that treat each token by itself.
struct Layout {
  Mask mask = {};    // (T, B), undefined: all
  Tensor rows = {};  // packed: (T, B) i32, the row of each token, and -1 on padding

  Layout() = default;
  Layout(Mask of) : mask(std::move(of)) {}        // NOLINT: a mask is a layout
  Layout(const Tensor& of) : Layout(Mask(of)) {}  // NOLINT
  /// Without the positions whose mask is 0; padded where none is.
  static Layout packed(const Mask& mask);

  /// (T, B, D) -> (N, D), and back with zeros on padding; x itself where the layout is padded.
  Var pack(const Var& x) const;
  Var unpack(const Var& x) const;

 private:
  Tensor positions_;  // (N) i32: of each row, in the (T, B) of the padded form
};

struct MultiHeadOptions {
  Index heads = 1;  // K
  Causal causal = Causal::no;
  double dropout = 0;  // of the weights, in training
};

struct MultiHeadResult {
  Var y;        // as the query
  Var weights;  // (T, K, S, B), or the mean (T, S, B), exactly 0 on padding; where asked for
};

/// A key-value cache: of a decoder's own steps, or of the memory that it attends to. Position s of
/// hypothesis b is row rows[s, b] of keys_values[s], so hypotheses share the entries of a common prefix,
/// and a selection of hypotheses changes `rows` alone.
struct KeyValueCache {
  std::vector<Var> keys_values;  // of each position, (R, 2D)
  Tensor rows;                   // (S, B) i32; -1: not seen
};

/// Hypotheses by number (i32).
inline KeyValueCache select(const KeyValueCache& cache, const Tensor& rows) {
  return {cache.keys_values, cache.rows.defined() ? gather(cache.rows, rows, 1) : cache.rows};
}

/// Multi-head scaled dot-product attention (Vaswani et al., 2017, sections 3.2.1 and 3.2.2) of
/// queries x (T, B, D) to a memory h (S, B, M), for head k with A = D / K elements:
///     α_k = softmax((x W_q)_k (h W_k)_kᵀ / √A),  y = [α_1 (h W_v)_1; ...; α_K (h W_v)_K] W_o
/// and biases. W_k and W_v stand side by side in "memory.W". Without a causal mask the order of the
/// positions has no influence: add `PositionalEncoding` where it should.
class MultiHeadAttention {
 public:
  /// `memory` is M; 0: as `size`. Throws unless `heads` divides `size`.
  MultiHeadAttention(const Scope& scope, Index size, const MultiHeadOptions& options = {},
                     Index memory = 0);

  /// [h W_k; h W_v], which a decoder computes once and keeps: (..., M) -> (..., 2D)
  Var precompute(const Var& memory) const { return memory_(memory); }

  /// Attends to the result of `precompute`; `keys` is its layout, whose mask (S, B) says what is seen.
  /// The query (T, B, D) is packed, (N, D), where `queries` is. With Causal::yes, query t sees
  /// positions 0 .. t + S - T. A query that sees none gets W_o's bias.
  MultiHeadResult operator()(const Var& query, const Var& keys_values, const Layout& keys = {},
                             Weights weights = Weights::no, const Layout& queries = {}) const;

  /// One query of each hypothesis, (B, D) -> y (B, D), weights (K, S, B).
  MultiHeadResult step(const Var& query, const KeyValueCache& cache) const;

  /// Self-attention: x (T, B, D), mask (T, B) or undefined, or packed x (N, D) -> as x
  Var self(const Var& x, const Layout& layout = {}) const {
    return (*this)(x, precompute(x), layout, Weights::no, layout).y;
  }

 private:
  MultiHeadOptions options_;
  Linear query_, memory_, output_;
  std::string path_;
};

/// Positional encoding: adds a vector p_t at position t, with i = 0 .. D/2 - 1:
///     p_t,2i = sin(t / 10000^(2i/D)),   p_t,2i+1 = cos(t / 10000^(2i/D))   (section 3.5)
class PositionalEncoding {
 public:
  /// The vectors of the first `cached` positions are computed once. It has no parameters.
  explicit PositionalEncoding(Index size, DType dtype = DType::f32, Index cached = 512);

  /// x (T, B, D), of the positions begin .. begin + T - 1
  Var operator()(const Var& x, Index begin = 0) const;

 private:
  Tensor table_;  // (cached, D)
};

enum class Nonlinearity { relu, gelu };

/// f(x W_1 + b_1) W_2 + b_2  (section 3.3), with dropout after f.
class FeedForward {
 public:
  FeedForward(const Scope& scope, Index size, Index inner, Nonlinearity f, double dropout)
      : inner_(scope / "inner", size, inner),
        outer_(scope / "outer", inner, size),
        f_(f),
        dropout_(dropout) {}

  /// (..., D) -> (..., D)
  Var operator()(const Var& x) const {
    const Var h = inner_(x);
    return outer_(dropout_(f_ == Nonlinearity::relu ? relu(h) : gelu(h)));
  }

 private:
  Linear inner_, outer_;
  Nonlinearity f_;
  Dropout dropout_;
};

/// Where a layer normalises: x + f(norm(x)), which needs no warm-up (Xiong et al., 2020), or the
/// paper's norm(x + f(x)).
enum class Norm { before, after };

struct TransformerLayerOptions {
  Index size = 256;    // D
  Index heads = 4;     // K
  Index inner = 1024;  // of the feed-forward block
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Norm norm = Norm::before;
  double dropout = 0;                                 // of what is added to x
  double attention_dropout = -1, inner_dropout = -1;  // -1: as dropout
};

/// Self-attention, attention to a memory in a decoder, and the feed-forward block, each with a
/// residual connection and a layer normalisation (section 3.1).
class TransformerLayer {
 public:
  /// What a decoder's layer attends to: `precompute` of the encoder's annotations.
  struct Memory {
    Var keys_values;  // (S, B, 2D), or packed
    Layout layout;
  };
  using Result = MultiHeadResult;  // weights of the memory

  /// `memory` is the size of annotations; 0: it does not attend to any.
  TransformerLayer(const Scope& scope, const TransformerLayerOptions& options, Causal causal,
                   Index memory = 0);

  /// h (S, B, M), or packed. Throws in a layer that attends to no memory.
  Memory precompute(const Var& h, const Layout& layout) const;

  /// x (T, B, D), or packed; the layout's mask says what is seen of x
  Result operator()(const Var& x, const Layout& layout, const Memory& memory = {},
                    Weights weights = Weights::no) const;

  /// One decoding step, x (B, D): appends its keys and values to the cache `cache`, and attends to
  /// all of it. `memory` caches the result of `precompute`.
  Result step(const Var& x, KeyValueCache& cache, const KeyValueCache& memory = {}) const;

 private:
  template <class Self, class Cross>
  Var run(Var x, Self self, Cross cross) const;

  Norm norm_;
  MultiHeadAttention self_;
  std::optional<MultiHeadAttention> cross_;
  FeedForward feed_forward_;
  LayerNorm self_norm_, feed_norm_;
  std::optional<LayerNorm> cross_norm_;
  Dropout dropout_;
  std::string path_;
};

}  // namespace attune::nn
