// Layers of the Transformer ("Attention is all you need", Vaswani et al., 2017): multi-head
// attention, positional encoding, feed-forward block, encoder and decoder layer.
#pragma once

#include <memory>
#include <optional>

#include <attune/autograd/attention_ops.hpp>
#include <attune/nn/layers.hpp>

namespace attune::nn {

/// Causal attention: position t attends to positions up to t only.
enum class Causal { no, yes };

using Weights = AttentionWeights;

/// Arrangement of the tokens of a batch: padded, x (T, B, D) with an optional mask, or packed, x
/// (N, D), the N tokens without padding. Layers that process each token independently are faster on
/// packed tokens.
struct Layout {
  Mask mask = {};    // padded: (T, B), undefined means no padding
  Tensor rows = {};  // packed: (T, B) i32, the row of each token, or -1 for padding

  Layout() = default;
  Layout(Mask of) : mask(std::move(of)) {}        // NOLINT: a mask is a layout
  Layout(const Tensor& of) : Layout(Mask(of)) {}  // NOLINT
  /// The packed layout of the positions with mask 1; a padded layout if all positions have it.
  static Layout packed(const Mask& mask);

  /// pack: (T, B, D) -> (N, D); unpack: (N, D) -> (T, B, D), with zeros at padding. Both return x
  /// if the layout is padded.
  Var pack(const Var& x) const;
  Var unpack(const Var& x) const;

  /// The position of each row of x, begin + t: (T), or (N) if packed. T = `steps`.
  Tensor positions(Integer begin, Integer steps) const;

 private:
  Tensor positions_;  // (N) i32: index of each row in the flattened (T, B)
};

struct MultiHeadOptions {
  Index heads = 1;  // K
  Causal causal = Causal::no;
  double dropout = 0;    // rate of the dropout on the weights, in training mode
  Index kv_heads = 0;    // G: grouped heads (Ainslie et al., 2023), divides K; 0 means K
  Index head_size = 0;   // A; 0 means D / K
  Index value_size = 0;  // A_v; 0 means A
  double rotary = 0;     // base of the rotary positions, usually 10000; 0: none. See rotary.
};

/// What a call adds to the scores of pairs of a query and a key, and which pairs it excludes. Both
/// broadcast to (B, K, T, S), and may be undefined.
struct PairOptions {
  Mask mask = {};  // 1 where the query may attend to the key
  Var bias = {};   // ALiBi, relative positions
};

struct MultiHeadResult {
  Var y;        // in the shape of the query
  Var weights;  // (T, K, S, B), mean: (T, S, B), no: undefined; before dropout
};

/// Key-value cache of one layer: of the previous decoder steps, or of the memory. Hypotheses share
/// the entries of a common prefix, and reordering hypotheses changes only `rows`. Copies share the
/// memory: `append` to one of them does not change the others.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  KeyValueCache(Var entries, Tensor of) : keys_values(std::move(entries)), rows(std::move(of)) {}
  /// The cache of a memory: keys and values (S, B, W), and a mask (S, B).
  static KeyValueCache of_memory(const Var& keys_values, const Mask& mask);

  /// Appends a position with an entry (B, W) of each hypothesis. Takes constant time on average,
  /// unless gradients are recorded.
  void append(const Var& entries);

  Var keys_values;  // (R, W) entries, in any order: [keys, values]
  Tensor rows;      // (S, B) i32: of each position of each hypothesis; -1 means not attended to

 private:
  struct Memory;  // of keys_values and of later entries
  std::shared_ptr<Memory> memory_;
};

/// Gathers hypotheses by index (i32, repetition allowed).
KeyValueCache select(const KeyValueCache& cache, const Tensor& rows);

/// Multi-head scaled dot-product attention (Vaswani et al., 2017, sections 3.2.1 and 3.2.2) of
/// queries x (T, B, D) to a memory h (S, B, M), for head k with A = D / K elements:
///     α_k = softmax((x W_q)_k (h W_k)_kᵀ / √A),  y = [α_1 (h W_v)_1; ...; α_K (h W_v)_K] W_o
/// with biases. The parameter "memory.W" is [W_k, W_v], (M, W) with W = G (A + A_v) columns, 2D by
/// default. The order of the positions has influence by a causal mask, PairOptions, rotary
/// positions, or a PositionalEncoding of x only.
class MultiHeadAttention {
 public:
  /// `size` is D, `memory` is M; 0 means M = D. Throws unless `heads` divides `size`, or head_size
  /// is given, and kv_heads divides heads.
  MultiHeadAttention(const Scope& scope, Integer size, const MultiHeadOptions& options = {},
                     Integer memory = 0);

  /// Keys and values [h W_k, h W_v], which a decoder computes once: (..., M) -> (..., W). With
  /// rotary positions, the first of them is `begin`, and h is (S, B, M), or packed.
  Var precompute(const Var& memory, const Layout& layout = {}, Integer begin = 0) const;

  /// Attention of a query (T, B, D), or (N, D) if `queries` is packed, to the result of
  /// `precompute` with the layout `keys`. Positions with mask 0 are excluded. With Causal::yes,
  /// query t attends to positions 0 .. t + S - T, and is at position t + S - T, else at t. If every
  /// position is excluded, y is the bias of W_o. Throws on shapes that do not fit.
  MultiHeadResult operator()(const Var& query, const Var& keys_values, const Layout& keys = {},
                             Weights weights = Weights::no, const Layout& queries = {},
                             const PairOptions& pairs = {}) const;

  /// One decoder step with one query per hypothesis, at the position of the last key of the cache:
  /// (B, D) -> y (B, D), weights (K, S, B), mean: (S, B). The bias (optional) broadcasts to
  /// (B, K, 1, S). A key is excluded by a row of -1 in the cache.
  MultiHeadResult step(const Var& query, const KeyValueCache& cache, const Var& bias = {},
                       Weights weights = Weights::per_head) const;

  /// Self-attention: x (T, B, D), or (N, D) if the layout is packed -> y of the same shape
  Var self(const Var& x, const Layout& layout = {}, const PairOptions& pairs = {}) const {
    return (*this)(x, precompute(x, layout), layout, Weights::no, layout, pairs).y;
  }

 private:
  Var rotated(const Var& x, const Layout& layout, Index begin, Index heads) const;

  MultiHeadOptions options_;  // with the default sizes in place of 0
  Linear query_, memory_, output_;
  std::string path_;
};

/// Sinusoidal positional encoding: adds to the vector at position t, for i = 0 .. D/2 - 1,
///     p_t,2i = sin(t / 10000^(2i/D)),   p_t,2i+1 = cos(t / 10000^(2i/D))   (section 3.5)
class PositionalEncoding {
 public:
  /// `size` is D. The constructor computes the first `cached` positions; it adds no parameters.
  explicit PositionalEncoding(Integer size, DType dtype = DType::f32, Integer cached = 512);

  /// x (T, B, D), where x[t] is at position begin + t -> (T, B, D). Throws if begin < 0.
  Var operator()(const Var& x, Integer begin = 0) const;

 private:
  Tensor table_;  // (cached, D)
};

enum class Nonlinearity { relu, gelu };

/// Feed-forward block: dropout(f(x W_1 + b_1)) W_2 + b_2  (section 3.3), W_1 (size, inner).
class FeedForward {
 public:
  FeedForward(const Scope& scope, Integer size, Integer inner, Nonlinearity f, double dropout)
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

/// Position of the layer normalisation: `before` is x + f(norm(x)) (pre-norm), which trains without
/// a learning-rate warm-up (Xiong et al., 2020); `after` is the paper's norm(x + f(x)) (post-norm).
enum class Norm { before, after };

struct TransformerLayerOptions {
  Index size = 256;    // D
  Index heads = 4;     // K
  Index inner = 1024;  // hidden size of the feed-forward block
  Nonlinearity nonlinearity = Nonlinearity::relu;
  Norm norm = Norm::before;
  double dropout = 0;             // rate on the output of each block, before it is added to x
  double attention_dropout = -1;  // rate on the attention weights; -1 means `dropout`
  double inner_dropout = -1;      // rate after f of the feed-forward block; -1 means `dropout`
};

/// Transformer layer (section 3.1): self-attention, in a decoder cross-attention to the memory, and
/// a feed-forward block, each with a residual connection and normalisation.
class TransformerLayer {
 public:
  /// Keys and values of the encoder's annotations, for the cross-attention of a decoder layer.
  struct Memory {
    Var keys_values;  // (S, B, 2D), or packed
    Layout layout;
  };
  using Result = MultiHeadResult;  // y and the weights of the cross-attention

  /// `memory` is the size M of the annotations; 0 means a layer without cross-attention.
  TransformerLayer(const Scope& scope, const TransformerLayerOptions& options, Causal causal,
                   Integer memory = 0);

  /// Annotations h (S, B, M), or packed -> keys and values. Throws without cross-attention.
  Memory precompute(const Var& h, const Layout& layout) const;

  /// x (T, B, D), or packed -> y of the same shape. `layout` is that of x.
  Result operator()(const Var& x, const Layout& layout, const Memory& memory = {},
                    Weights weights = Weights::no) const;

  /// One decoder step, x (B, D) -> y (B, D): appends the keys and values of x to `cache`, and
  /// attends to all positions in it. `memory` is that of the result of `precompute`.
  Result step(const Var& x, KeyValueCache& cache, const KeyValueCache& memory = {},
              Weights weights = Weights::per_head) const;

 private:
  template <class Self, class Cross>
  Result run(Var x, bool has_memory, Self self, Cross cross) const;

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
