#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/fused_attention.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

/// Queries and keys per block: their scores fit in the second-level cache.
constexpr Index block_queries = 64, block_keys = 256;
/// Queries per tile of the forward pass, and multiply-adds per tile.
constexpr Index tile_queries = 512, tile_work = 512 * 1024;

/// The queries or keys of one sentence: their positions, ascending, and their rows in memory.
struct Tokens {
  std::vector<Index> positions, rows;
  Index count() const { return std::ssize(rows); }
};

/// The tokens i of (T, B) with row_of(i) >= 0.
template <class Row>
std::vector<Tokens> tokens_of(Index steps, Index sentences, const Row& row_of) {
  std::vector<Tokens> tokens(static_cast<std::size_t>(sentences));
  for (Tokens& of : tokens) of.positions.reserve(steps), of.rows.reserve(steps);
  for (Index i = 0; i < steps * sentences; ++i) {
    const Index row = row_of(i);
    if (row < 0) continue;
    tokens[i % sentences].positions.push_back(i / sentences);
    tokens[i % sentences].rows.push_back(row);
  }
  return tokens;
}

/// The tokens of x (T, B, ...) whose mask is not 0; all tokens if the mask is undefined.
std::vector<Tokens> padded_tokens(Index steps, Index sentences, const Mask& mask) {
  const std::vector<float> used = mask.defined() ? mask.to_vector<float>() : std::vector<float>();
  return tokens_of(steps, sentences,
                   [&](Index i) { return used.empty() || used[i] != 0 ? i : -1; });
}

/// The tokens of x (N, ...), by `rows` (T, B): each of the N rows once, and -1 on padding.
std::vector<Tokens> packed_tokens(const char* name, const Tensor& rows, Index n) {
  std::vector<bool> found(static_cast<std::size_t>(n));
  const std::int32_t* row = checked_ids("attention", name, rows, n, -1);
  for (Index i = 0; i < rows.size(); ++i) {
    if (row[i] < 0) continue;
    if (found[row[i]]) fail("attention", "{}: row {} occurs twice", name, row[i]);
    found[row[i]] = true;
  }
  const auto missing = std::ranges::find(found, false);
  if (missing != found.end())
    fail("attention", "{}: row {} is missing", name, missing - found.begin());
  return tokens_of(rows.dim(0), rows.dim(1), [&](Index i) { return row[i]; });
}

/// The keys and queries of one sentence that take part. Masked keys are removed before anything is
/// computed, so that the blocks need no masks.
struct Seen {
  Tokens queries, keys;
  std::vector<Index> until;  // query i attends to the first until[i] keys
};

/// Elements of a head. Throws unless the heads divide the size.
Index head_size(const char* operation, Index heads, Index size) {
  if (heads < 1 || size % heads != 0)
    fail(operation, "{} heads do not divide a size of {}", heads, size);
  return size / heads;
}

/// The parameters of one call: extents, options, and the tokens of each sentence that take part.
struct Problem {
  Problem(const Tensor& q, const Tensor& kv, const FusedAttentionOptions& o) : options(o) {
    ShapeCheck check("attention");
    if (o.query_rows.defined()) check("query_rows", o.query_rows, "T B");
    if (o.key_rows.defined()) check("key_rows", o.key_rows, "S B");
    check("q", q, o.query_rows.defined() ? "N D" : "T B D");
    check("kv", kv, o.key_rows.defined() ? "M 2D" : "S B 2D");
    if (o.mask.defined()) check("mask", o.mask, "S B");
    require_same_dtype("attention", q, kv);
    if (o.mask.defined() && o.key_rows.defined())
      fail("attention", "mask and key_rows exclude each other");
    t = check['T'], s = check['S'], b = check['B'], d = check['D'];
    a = head_size("attention", o.heads, d);
    if (!(o.dropout >= 0 && o.dropout < 1))
      fail("attention", "the dropout {} is not in [0, 1)", o.dropout);
    std::vector<Tokens> queries = o.query_rows.defined()
                                      ? packed_tokens("query_rows", o.query_rows, check['N'])
                                      : padded_tokens(t, b, {}),
                        keys = o.key_rows.defined()
                                   ? packed_tokens("key_rows", o.key_rows, check['M'])
                                   : padded_tokens(s, b, o.mask);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      Seen& of = seen.emplace_back(Seen{std::move(queries[i]), std::move(keys[i]), {}});
      of.until.reserve(of.queries.rows.size());
      Index count = o.causal ? 0 : of.keys.count();
      for (const Index position : of.queries.positions) {
        while (count < of.keys.count() && of.keys.positions[count] <= position + s - t) ++count;
        of.until.push_back(count);
      }
    }
  }

  Index pairs() const { return b * options.heads; }
  /// Number of (sentence, head) pairs per tile.
  Index pairs_of_tile() const { return std::max<Index>(1, tile_work / (2 * t * s * a + 1)); }

  FusedAttentionOptions options;
  Index t, s, b, d, a;
  std::vector<Seen> seen;  // (B)
};

/// The rows of one head of one sentence.
template <class T>
struct HeadRows {
  T* first;
  Index stride;
  std::span<const Index> rows;
  T* operator[](Index i) const { return first + rows[i] * stride; }
};

/// y = factor · x
template <class T>
void copy_row(const T* x, T factor, Index n, T* y) {
  for (Index i = 0; i < n; ++i) y[i] = factor * x[i];
}

/// Blocks of the rows of x (rows, columns), or of its transpose, packed for matrix products.
template <class T>
class PackedBlocks {
 public:
  void pack(const T* x, Index rows, Index columns, Index block, bool transposed) {
    const Index count = ceil_div(rows, block);
    if (std::ssize(packed_) < count) packed_.resize(count);
    for (Index i = 0; i < count; ++i) {
      const MatrixView<const T> part{x + i * block * columns, std::min(block, rows - i * block),
                                     columns, columns};
      packed_[i].pack(transposed ? part.transpose() : part);
    }
  }
  const PackedMatrix<T>& operator[](Index block) const { return packed_[block]; }

 private:
  std::vector<PackedMatrix<T>> packed_;
};

/// The work of one thread: a sequence of (sentence, head) pairs. `pair` is sentence · K + head.
template <class T>
class HeadWork {
 public:
  HeadWork(const Problem& problem, const T* q, const T* kv)
      : p_(problem),
        q_(q),
        kv_(kv),
        memory_(Tensor::uninitialized(
            {2 * block_queries * block_keys + block_queries * p_.a + (3 * p_.t + 4 * p_.s) * p_.a},
            dtype_of<T>, "attention")) {}

  /// Computes the queries [begin, end) of a head.
  void forward(Index pair, Index begin, Index end, T* y_data, T* norms) {
    taken_ = 0;
    const Seen& of = seen(pair);
    end = std::min(end, of.queries.count());
    if (begin >= end) return;
    const Index a = p_.a, n = of.until[end - 1];
    const T* k = gathered(key_rows(kv_, pair), 0, n, 1);
    const T* v = gathered(key_rows(kv_, pair, p_.d), 0, n, 1);
    const T* q = gathered(query_rows(q_, pair), begin, end, scale_);
    keys_.pack(k, n, a, block_keys, /*transposed=*/true);
    values_.pack(v, n, a, block_keys, /*transposed=*/false);
    T* const scores = take(block_queries * block_keys);
    T* const read = take(block_queries * a);
    const HeadRows<T> y = query_rows(y_data, pair);

    for (Index first = begin; first < end; first += block_queries) {
      const Index queries = std::min(block_queries, end - first);
      T largest[block_queries];
      double total[block_queries] = {};
      std::fill_n(largest, queries, std::numeric_limits<T>::lowest());
      std::fill_n(read, queries * a, T(0));
      for (Index key = 0; key < of.until[first + queries - 1]; key += block_keys) {
        const Index width = std::min(block_keys, n - key), block = key / block_keys;
        gemm<T>({q + (first - begin) * a, queries, a, a}, keys_[block],
                {scores, queries, width, width});
        for (Index i = 0; i < queries; ++i) {
          T* const row = scores + i * width;
          const Index count = std::clamp<Index>(of.until[first + i] - key, 0, width);
          std::fill(row + count, row + width, T(0));
          if (count == 0) continue;
          const T before = largest[i];
          largest[i] = std::max(before, simd::largest(row, count));
          const double sum = simd::sum_exp(row, largest[i], count, row);
          if (key == 0) {
            total[i] = sum;
          } else {
            T shrink = before - largest[i];
            simd::exp(&shrink, &shrink, 1);
            total[i] = total[i] * shrink + sum;
            if (shrink != 1) simd::scale(shrink, read + i * a, a);
          }
          if (const T* m = kept(pair, first + i, key, count)) {
            for (Index j = 0; j < count; ++j) row[j] *= m[j];
          }
        }
        gemm<T>({scores, queries, width, width}, values_[block], {read, queries, a, a}, Into::add);
      }
      for (Index i = 0; i < queries; ++i) {
        const T factor = total[i] == 0 ? T(0) : static_cast<T>(1 / total[i]);
        copy_row(read + i * a, factor, a, y[first + i]);
        T* const norm = norms + 2 * (pair * p_.t + first + i);
        norm[0] = largest[i], norm[1] = factor;
      }
    }
  }

  /// Gradients of a whole head. dq, dkv have the layout of q, kv. Masked keys are not written.
  void backward(Index pair, const T* y_data, const T* norms, const T* dy_data, T* dq_data,
                T* dkv_data) {
    taken_ = 0;
    const Seen& of = seen(pair);
    const Index a = p_.a, t = of.queries.count(), n = of.keys.count(),
                used = t == 0 ? 0 : of.until[t - 1];
    const T* k = gathered(key_rows(kv_, pair), 0, used, 1);
    const T* v = gathered(key_rows(kv_, pair, p_.d), 0, used, 1);
    T* q = gathered(query_rows(q_, pair), 0, t, scale_);
    const T* dy = gathered(query_rows(dy_data, pair), 0, t, 1);
    std::vector<bool> discarded(t);
    for (Index i = 0; i < t; ++i) {
      discarded[i] = detail::is_zero(dy + i * a, a);
      if (discarded[i]) std::fill_n(q + i * a, a, T(0));
    }
    keys_.pack(k, used, a, block_keys, /*transposed=*/true);
    keys_across_.pack(k, used, a, block_keys, /*transposed=*/false);
    values_.pack(v, used, a, block_keys, /*transposed=*/true);
    queries_.pack(q, t, a, block_queries, /*transposed=*/false);
    dy_.pack(dy, t, a, block_queries, /*transposed=*/false);
    T* const weights = take(block_queries * block_keys);
    T* const dweights = take(block_queries * block_keys);
    T* const dq = take(t * a);
    T* const dk = take(n * a);
    T* const dv = take(n * a);
    std::fill(dq, dv + n * a, T(0));  // dq, dk and dv
    const HeadRows<const T> y = query_rows(y_data, pair);

    for (Index first = 0; first < t; first += block_queries) {
      if (detail::is_zero(dy + first * a, std::min(block_queries, t - first) * a)) continue;
      const Index queries = std::min(block_queries, t - first), of_queries = first / block_queries;
      T delta[block_queries];
      for (Index i = 0; i < queries; ++i)
        delta[i] = simd::dot(dy + (first + i) * a, y[first + i], a);
      for (Index key = 0; key < of.until[first + queries - 1]; key += block_keys) {
        const Index width = std::min(block_keys, used - key), block = key / block_keys;
        const MatrixView<T> w{weights, queries, width, width}, dw{dweights, queries, width, width};
        gemm<T>({q + first * a, queries, a, a}, keys_[block], w);
        gemm<T>({dy + first * a, queries, a, a}, values_[block], dw);
        for (Index i = 0; i < queries; ++i) {
          const Index count =
              discarded[first + i] ? 0 : std::clamp<Index>(of.until[first + i] - key, 0, width);
          const T* const norm = norms + 2 * (pair * p_.t + first + i);
          simd::run(simd::AttentionGradientRow<T>{weights + i * width, dweights + i * width,
                                                  kept(pair, first + i, key, count), norm[0],
                                                  norm[1], delta[i]},
                    count);
          std::fill(weights + i * width + count, weights + (i + 1) * width, T(0));
          std::fill(dweights + i * width + count, dweights + (i + 1) * width, T(0));
        }
        const MatrixView<const T> w_read{weights, queries, width, width},
            dw_read{dweights, queries, width, width};
        gemm<T>(w_read.transpose(), dy_[of_queries], {dv + key * a, width, a, a}, Into::add);
        gemm<T>(dw_read.transpose(), queries_[of_queries], {dk + key * a, width, a, a}, Into::add);
        gemm<T>(dw_read, keys_across_[block], {dq + first * a, queries, a, a}, Into::add);
      }
    }
    const HeadRows<T> to_q = query_rows(dq_data, pair), to_k = key_rows(dkv_data, pair),
                      to_v = key_rows(dkv_data, pair, p_.d);
    for (Index i = 0; i < t; ++i) {
      if (discarded[i]) std::fill_n(dq + i * a, a, T(0));  // even if a key is not finite
      copy_row(dq + i * a, static_cast<T>(scale_), a, to_q[i]);
    }
    for (Index i = 0; i < n; ++i) {
      std::copy_n(dk + i * a, a, to_k[i]);
      std::copy_n(dv + i * a, a, to_v[i]);
    }
  }

 private:
  /// The columns of this head: in the queries (..., D); in the keys and values (..., 2D), the keys
  /// with offset 0, the values with offset D.
  template <class U>
  HeadRows<U> query_rows(U* x, Index pair) const {
    return {x + pair % p_.options.heads * p_.a, p_.d, seen(pair).queries.rows};
  }
  template <class U>
  HeadRows<U> key_rows(U* x, Index pair, Index offset = 0) const {
    return {x + offset + pair % p_.options.heads * p_.a, 2 * p_.d, seen(pair).keys.rows};
  }
  const Seen& seen(Index pair) const { return p_.seen[pair / p_.options.heads]; }

  /// Scratch memory for n elements, valid until the next head.
  T* take(Index n) {
    T* const scratch = memory_.template mutable_data<T>() + taken_;
    taken_ += n;
    return scratch;
  }
  /// A copy of rows [begin, end), multiplied by a factor.
  T* gathered(const HeadRows<const T>& from, Index begin, Index end, double factor) {
    T* const to = take((end - begin) * p_.a);
    for (Index i = begin; i < end; ++i)
      copy_row(from[i], static_cast<T>(factor), p_.a, to + (i - begin) * p_.a);
    return to;
  }

  /// Dropout factors of a query for `count` keys from key `first` on, or null without dropout.
  const T* kept(Index pair, Index query, Index first, Index count) {
    const double rate = p_.options.dropout;
    if (rate == 0 || count == 0) return nullptr;
    const std::span keys = std::span(seen(pair).keys.positions).subspan(first, count);
    const Index from = keys.front(), t = seen(pair).queries.positions[query];
    kept_.resize(static_cast<std::size_t>(keys.back() - from + 1));
    p_.options.random.ahead(static_cast<std::uint64_t>((pair * p_.t + t) * p_.s + from))
        .dropout(rate, std::span(kept_));
    for (Index j = 0; j < count; ++j) kept_[j] = kept_[keys[j] - from];  // keys are ascending
    return kept_.data();
  }

  const Problem& p_;
  const T *q_, *kv_;
  Tensor memory_;
  Index taken_ = 0;
  std::vector<T> kept_;
  PackedBlocks<T> keys_, values_, keys_across_, queries_, dy_;
  double scale_ = 1 / std::sqrt(static_cast<double>(p_.a));
};

}  // namespace

AttentionForward attention_forward(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o) {
  const Problem p(q, kv, o);
  Tensor y = Tensor::uninitialized(q.shape(), q.dtype(), "attention");
  Tensor norms = Tensor::uninitialized({p.b, o.heads, p.t, 2}, q.dtype(), "attention");
  const Index chunks = ceil_div(p.t, tile_queries);
  const auto compute = [&]<class T>(Index i, Index last, const T* q_data, const T* kv_data,
                                    T* y_data, T* norms_data) {
    for (HeadWork<T> work(p, q_data, kv_data); i < last; ++i) {
      const Index begin = i % chunks * tile_queries;
      work.forward(i / chunks, begin, std::min(begin + tile_queries, p.t), y_data, norms_data);
    }
  };
  parallel_rows("attention", std::tie(q, kv, y, norms), p.pairs() * chunks, p.pairs_of_tile(),
                compute);
  return {y, norms};
}

AttentionBackward attention_backward(const Tensor& q, const Tensor& kv,
                                     const FusedAttentionOptions& o,
                                     const AttentionForward& forward, const Tensor& dy) {
  const Problem p(q, kv, o);
  Tensor dq = Tensor::uninitialized(q.shape(), q.dtype(), "attention");
  Tensor dkv = o.mask.defined() && !o.key_rows.defined()
                   ? zeros(kv.shape(), kv.dtype())
                   : Tensor::uninitialized(kv.shape(), kv.dtype(), "attention");
  const auto compute = [&]<class T>(Index pair, Index last, const T* q_data, const T* kv_data,
                                    const T* y, const T* norms, const T* dy_data, T* dq_data,
                                    T* dkv_data) {
    for (HeadWork<T> work(p, q_data, kv_data); pair < last; ++pair)
      work.backward(pair, y, norms, dy_data, dq_data, dkv_data);
  };
  parallel_rows("attention", std::tie(q, kv, forward.y, forward.norms, dy, dq, dkv), p.pairs(),
                p.pairs_of_tile(), compute);
  return {dq, dkv};
}

AttentionStep attention_step(const Tensor& q, std::span<const Tensor> cache, const Tensor& rows,
                             Integer heads) {
  ShapeCheck check("attention_step");
  check("q", q, "B D")("rows", rows, "S B");
  const Index b = check['B'], d = check['D'], s = check['S'];
  const Index a = head_size("attention_step", heads, d);
  if (std::ssize(cache) != s)
    fail("attention_step", "the cache has {} entries, but rows has {} positions", cache.size(), s);
  for (Index i = 0; i < s; ++i) {
    require_same_dtype("attention_step", q, cache[i]);
    ShapeCheck("attention_step")("q", q, "B D")("cache", cache[i], "R 2D");
    checked_ids("attention_step", "row", rows[i], cache[i].dim(0), -1);
  }
  AttentionStep result{Tensor::uninitialized(q.shape(), q.dtype(), "attention_step"),
                       Tensor::uninitialized({heads, s, b}, q.dtype(), "attention_step")};
  const auto* row = rows.data<std::int32_t>();
  const double scale = 1 / std::sqrt(static_cast<double>(a));
  const auto compute = [&]<class T>(Index begin, Index end, const T* q_data, T* y_data,
                                    T* weights) {
    std::fill_n(y_data + begin * d, (end - begin) * d, T(0));
    std::vector<Index> seen;     // positions that the hypothesis attends to
    std::vector<const T*> keys;  // their rows in the cache
    for (Index hypothesis = begin; hypothesis < end; ++hypothesis) {
      seen.clear(), keys.clear();
      for (Index position = 0; position < s; ++position) {
        const Index at = row[position * b + hypothesis];
        if (at < 0) continue;
        seen.push_back(position);
        keys.push_back(cache[position].data<T>() + at * 2 * d);
      }
      const Index n = std::ssize(seen);
      std::vector<T> alpha(seen.size());
      for (Index column = 0; column < d; column += a) {
        const T* const query = q_data + hypothesis * d + column;
        for (Index i = 0; i < n; ++i)
          alpha[i] = static_cast<T>(scale) * simd::dot(query, keys[i] + column, a);
        const T largest =
            std::max(simd::largest(alpha.data(), n), std::numeric_limits<T>::lowest());
        const T total = simd::sum_exp(alpha.data(), largest, n, alpha.data());
        T* const of_head = weights + column / a * s * b + hypothesis;
        for (Index position = 0; position < s; ++position) of_head[position * b] = 0;
        for (Index i = 0; i < n; ++i) {
          const T weight = total == 0 ? T(0) : alpha[i] / total;
          of_head[seen[i] * b] = weight;
          simd::add_scaled(weight, keys[i] + d + column, y_data + hypothesis * d + column, a);
        }
      }
    }
  };
  parallel_rows("attention_step", std::tie(q, result.y, result.weights), b, rows_of_tile(2 * s * d),
                compute);
  return result;
}

}  // namespace attune
