// Options of fused attention, and which queries attend to which keys: heads, tokens, masks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Heads, masks and dropout of the fused attention.
struct FusedAttentionOptions {
  Index heads = 1;       // K, of the queries; must divide D
  Index kv_heads = 0;    // G, of the keys and values; must divide K; 0 means K
  Index value_size = 0;  // A_v, elements of a value in each head; 0 means A = D / K
  bool causal = false;   // query t attends only to the keys 0 .. t + S - T
  Mask mask = {};        // (S, B): 1 on keys that take part; undefined: all. Not with key_rows.
  /// 1 where a query may attend to a key; broadcasts to (B, K, T, S). Undefined: everywhere. Blocks
  /// of queries and keys without any 1 are not computed.
  Mask attention_mask = {};
  /// For sequences stored without padding: q is (N, D), or kv is (M, G (A + A_v)), with one row per
  /// token. Then query_rows (T, B) or key_rows (S, B), i32, hold the row of each token, and -1 on
  /// padding.
  Tensor query_rows = {}, key_rows = {};
  /// Dropout rate of the weights, as in tensor2tensor; Vaswani et al. (2017) do not use it. Draws
  /// the next B·K·T·S numbers of `random`, in the order (B, K, T, S). Backward draws them again.
  double dropout = 0;
  Random random = Random(0);
};

namespace detail {

/// The queries or keys of one sentence: their positions, ascending, and their rows in memory.
struct Tokens {
  std::vector<Index> positions, rows;
  Index count() const { return std::ssize(rows); }
};

/// The keys that a query attends to: indices [from, until) of Seen::keys, without those at whose
/// positions `mask` is 0.
struct Range {
  Index from = 0, until = 0;
  const float* mask = nullptr;  // null: all
  Index count() const { return until - from; }
  Range within(Index first, Index width) const {
    return {std::clamp<Index>(from - first, 0, width), std::clamp<Index>(until - first, 0, width),
            mask};
  }
};

/// The keys of several queries, from the first to the last.
Range span_of(std::span<const Range> ranges);

/// The keys and queries of one sentence that take part. Keys masked for all queries are removed
/// before anything is computed.
struct Seen {
  Tokens queries, keys;
  std::vector<Range> ranges;  // of query i and head h of the attention mask: [h · queries + i]
};

/// Throws if x is defined and does not broadcast to `pairs`, (B, K, T, S).
void require_fits_pairs(const char* operation, const char* name, const Tensor& x,
                        const Shape& pairs);
/// The shape with leading axes of extent 1, up to rank 4.
Shape with_rank_4(Shape shape);

/// A tensor that broadcasts to (B, K, T, S).
struct OfPairs {
  OfPairs() = default;
  /// x may be undefined.
  explicit OfPairs(const Tensor& x);
  Index offset(Index sentence, Index head, Index query) const {
    return sentence * strides[0] + head * strides[1] + query * strides[2];
  }
  Tensor values;          // rank 4, or undefined
  Index strides[4] = {};  // 0 along axes of extent 1
};

/// Numbers and sizes of the heads of q with `size` elements. Throws if they do not fit.
struct Heads {
  Heads() = default;
  Heads(const char* operation, const FusedAttentionOptions& o, Index size);
  Index width() const { return g * (a + a_v); }  // of keys and values
  Index k = 1, g = 1;                            // heads of the queries, and of the keys and values
  Index a = 0, a_v = 0;                          // elements of a head of q and k, and of a value
};

/// Throws unless the shapes and dtypes of one call fit. Returns (B, K, T, S).
Shape checked_pairs(const char* operation, const Tensor& q, const Tensor& kv,
                    const FusedAttentionOptions& o, const Tensor& bias);

/// The parameters of one call: extents, options, and the tokens of each sentence that take part.
struct AttentionProblem {
  /// Throws on shapes that do not fit.
  AttentionProblem(const Tensor& q, const Tensor& kv, const FusedAttentionOptions& o,
                   const Tensor& bias);

  Index pairs() const { return b * heads.k; }
  /// The ranges of the queries of a pair, sentence · K + head.
  std::span<const Range> ranges(Index pair) const;

  FusedAttentionOptions options;
  Heads heads;
  Index t, s, b;
  OfPairs bias, mask;
  std::vector<Seen> seen;  // (B)

 private:
  void remove_unused_keys();
  std::vector<Range> rows_of_mask() const;
  void find_ranges();
};

}  // namespace detail
}  // namespace attune
