#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/fused_attention.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

/// Queries and keys per block: their scores fit in the second-level cache.
constexpr Index block_queries = 64, block_keys = 256;
/// Queries per tile of the forward pass, and multiply-adds per tile.
constexpr Index tile_queries = 512, tile_work = 512 * 1024;

using detail::AttentionProblem, detail::Heads, detail::OfPairs, detail::Range, detail::Seen;

/// Number of (sentence, head) pairs per tile.
Index pairs_of_tile(const AttentionProblem& p) {
  return std::max<Index>(1, tile_work / (p.t * p.s * (p.heads.a + p.heads.a_v) + 1));
}

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
  HeadWork(const AttentionProblem& problem, const T* q, const T* kv, const T* bias)
      : p_(problem),
        q_(q),
        kv_(kv),
        bias_(bias),
        memory_(Tensor::uninitialized({2 * block_queries * block_keys + block_queries * a_v_ +
                                       p_.t * (2 * a_ + a_v_) + 2 * p_.s * (a_ + a_v_)},
                                      dtype_of<T>, "attention")) {}

  /// Computes the queries [begin, end) of a head.
  void forward(Index pair, Index begin, Index end, T* y_data, T* norms) {
    taken_ = 0;
    const std::span<const Range> ranges = p_.ranges(pair);
    end = std::min<Index>(end, std::ssize(ranges));
    if (begin >= end) return;
    const Range all = detail::span_of(ranges.subspan(begin, end - begin));
    const Index lowest = all.from / block_ * block_, n = all.until - lowest;
    const T* k = gathered(key_rows(kv_, pair), lowest, all.until, a_, 1);
    const T* v = gathered(value_rows(kv_, pair), lowest, all.until, a_v_, 1);
    const T* q = gathered(query_rows(q_, pair, a_), begin, end, a_, scale_);
    keys_.pack(k, n, a_, block_, /*transposed=*/true);
    values_.pack(v, n, a_v_, block_, /*transposed=*/false);
    T* const scores = take(block_queries * block_keys);
    T* const read = take(block_queries * a_v_);
    const HeadRows<T> y = query_rows(y_data, pair, a_v_);

    for (Index first = begin; first < end; first += block_queries) {
      const Index queries = std::min(block_queries, end - first);
      const std::span<const Range> of_block = ranges.subspan(first, queries);
      const Range keys = detail::span_of(of_block);
      T largest[block_queries];
      double total[block_queries] = {};
      std::fill_n(largest, queries, std::numeric_limits<T>::lowest());
      std::fill_n(read, queries * a_v_, T(0));
      for (Index key = keys.from / block_ * block_; key < keys.until; key += block_) {
        const Index width = std::min(block_, all.until - key), block = (key - lowest) / block_;
        if (!any_seen(pair, of_block, key, width)) continue;
        gemm<T>({q + (first - begin) * a_, queries, a_, a_}, keys_[block],
                {scores, queries, width, width});
        for (Index i = 0; i < queries; ++i) {
          const Range seen = of_block[i].within(key, width);
          T* const row = scores + i * width + seen.from;
          adjust_scores(pair, first + i, seen, key, scores + i * width);
          clear_outside(seen, width, scores + i * width);
          if (seen.count() == 0) continue;
          const T before = largest[i];
          largest[i] = std::max(before, simd::largest(row, seen.count()));
          const double sum = simd::sum_exp(row, largest[i], seen.count(), row);
          if (total[i] == 0) {
            total[i] = sum;
          } else {
            T shrink = before - largest[i];
            simd::exp(&shrink, &shrink, 1);
            total[i] = total[i] * shrink + sum;
            if (shrink != 1) simd::scale(shrink, read + i * a_v_, a_v_);
          }
          if (const T* m = kept(pair, first + i, key + seen.from, seen.count())) {
            for (Index j = 0; j < seen.count(); ++j) row[j] *= m[j];
          }
        }
        gemm<T>({scores, queries, width, width}, values_[block], {read, queries, a_v_, a_v_},
                Into::add);
      }
      for (Index i = 0; i < queries; ++i) {
        const T factor = total[i] == 0 ? T(0) : static_cast<T>(1 / total[i]);
        copy_row(read + i * a_v_, factor, a_v_, y[first + i]);
        T* const norm = norms + 2 * (pair * p_.t + first + i);
        norm[0] = largest[i], norm[1] = factor;
      }
    }
  }

  /// The tensors of a backward pass. dq and dkv have the layouts of q and kv. dbias is null, or has
  /// K heads and the other extents of the bias.
  struct Gradients {
    const T *y, *norms, *dy;
    T *dq, *dkv, *dbias;
  };

  /// Gradients of a head of the keys and values, and of the heads of the queries that use it.
  /// `group` is sentence · G + head. Masked keys are not written.
  void backward(Index group, const Gradients& g) {
    taken_ = 0;
    const Index heads = p_.heads.k / p_.heads.g, pair = group * heads;
    const Index n = seen(pair).keys.count();
    Index used = 0;
    for (Index i = 0; i < heads; ++i)
      used = std::max(used, detail::span_of(p_.ranges(pair + i)).until);
    const T* k = gathered(key_rows(kv_, pair), 0, used, a_, 1);
    const T* v = gathered(value_rows(kv_, pair), 0, used, a_v_, 1);
    keys_.pack(k, used, a_, block_, /*transposed=*/true);
    keys_across_.pack(k, used, a_, block_, /*transposed=*/false);
    values_.pack(v, used, a_v_, block_, /*transposed=*/true);
    T* const dk = take(n * a_);
    T* const dv = take(n * a_v_);
    std::fill(dk, dv + n * a_v_, T(0));  // dk and dv
    for (Index i = 0, mark = taken_; i < heads; ++i, taken_ = mark)
      backward_of_query_head(pair + i, used, g, dk, dv);
    const HeadRows<T> to_k = key_rows(g.dkv, pair), to_v = value_rows(g.dkv, pair);
    for (Index i = 0; i < n; ++i) {
      std::copy_n(dk + i * a_, a_, to_k[i]);
      std::copy_n(dv + i * a_v_, a_v_, to_v[i]);
    }
  }

 private:
  /// Writes dq, and adds to dk (keys, A), dv (keys, A_v) and dbias.
  void backward_of_query_head(Index pair, Index used, const Gradients& g, T* dk, T* dv) {
    const std::span<const Range> ranges = p_.ranges(pair);
    const Index t = std::ssize(ranges);
    T* q = gathered(query_rows(q_, pair, a_), 0, t, a_, scale_);
    const T* dy = gathered(query_rows(g.dy, pair, a_v_), 0, t, a_v_, 1);
    std::vector<bool> discarded(t);
    for (Index i = 0; i < t; ++i) {
      discarded[i] = detail::is_zero(dy + i * a_v_, a_v_);
      if (discarded[i]) std::fill_n(q + i * a_, a_, T(0));
    }
    queries_.pack(q, t, a_, block_queries, /*transposed=*/false);
    dy_.pack(dy, t, a_v_, block_queries, /*transposed=*/false);
    T* const weights = take(block_queries * block_keys);
    T* const dweights = take(block_queries * block_keys);
    T* const dq = take(t * a_);
    std::fill_n(dq, t * a_, T(0));
    const HeadRows<const T> y = query_rows(g.y, pair, a_v_);

    for (Index first = 0; first < t; first += block_queries) {
      const Index queries = std::min(block_queries, t - first), of_queries = first / block_queries;
      if (detail::is_zero(dy + first * a_v_, queries * a_v_)) continue;
      const std::span<const Range> of_block = ranges.subspan(first, queries);
      const Range keys = detail::span_of(of_block);
      T delta[block_queries];
      for (Index i = 0; i < queries; ++i)
        delta[i] = simd::dot(dy + (first + i) * a_v_, y[first + i], a_v_);
      for (Index key = keys.from / block_ * block_; key < keys.until; key += block_) {
        const Index width = std::min(block_, used - key), block = key / block_;
        if (!any_seen(pair, of_block, key, width)) continue;
        const MatrixView<T> w{weights, queries, width, width}, dw{dweights, queries, width, width};
        gemm<T>({q + first * a_, queries, a_, a_}, keys_[block], w);
        gemm<T>({dy + first * a_v_, queries, a_v_, a_v_}, values_[block], dw);
        for (Index i = 0; i < queries; ++i) {
          const Range seen = discarded[first + i] ? Range{} : of_block[i].within(key, width);
          T *const w_row = weights + i * width, *const dw_row = dweights + i * width;
          adjust_scores(pair, first + i, seen, key, w_row);
          const T* const norm = g.norms + 2 * (pair * p_.t + first + i);
          simd::run(
              simd::AttentionGradientRow<T>{w_row + seen.from, dw_row + seen.from,
                                            kept(pair, first + i, key + seen.from, seen.count()),
                                            norm[0], norm[1], delta[i]},
              seen.count());
          clear_outside(seen, width, w_row);
          clear_outside(seen, width, dw_row);
          if (g.dbias) add_bias_gradient(pair, first + i, seen, key, dw_row, g.dbias);
        }
        const MatrixView<const T> w_read{weights, queries, width, width},
            dw_read{dweights, queries, width, width};
        gemm<T>(w_read.transpose(), dy_[of_queries], {dv + key * a_v_, width, a_v_, a_v_},
                Into::add);
        gemm<T>(dw_read.transpose(), queries_[of_queries], {dk + key * a_, width, a_, a_},
                Into::add);
        gemm<T>(dw_read, keys_across_[block], {dq + first * a_, queries, a_, a_}, Into::add);
      }
    }
    const HeadRows<T> to_q = query_rows(g.dq, pair, a_);
    for (Index i = 0; i < t; ++i) {
      if (discarded[i]) std::fill_n(dq + i * a_, a_, T(0));  // even if a key is not finite
      copy_row(dq + i * a_, static_cast<T>(scale_), a_, to_q[i]);
    }
  }

  /// The columns of this head: in the queries (..., K size); in the keys and values
  /// (..., G A + G A_v).
  template <class U>
  HeadRows<U> query_rows(U* x, Index pair, Index size) const {
    return {x + pair % p_.heads.k * size, p_.heads.k * size, seen(pair).queries.rows};
  }
  template <class U>
  HeadRows<U> key_rows(U* x, Index pair) const {
    return {x + kv_head(pair) * a_, p_.heads.width(), seen(pair).keys.rows};
  }
  template <class U>
  HeadRows<U> value_rows(U* x, Index pair) const {
    return {x + p_.heads.g * a_ + kv_head(pair) * a_v_, p_.heads.width(), seen(pair).keys.rows};
  }
  Index kv_head(Index pair) const { return pair % p_.heads.k / (p_.heads.k / p_.heads.g); }
  const Seen& seen(Index pair) const { return p_.seen[pair / p_.heads.k]; }

  /// Scratch memory for n elements, valid until the next head.
  T* take(Index n) {
    T* const scratch = memory_.template mutable_data<T>() + taken_;
    taken_ += n;
    return scratch;
  }
  /// A copy of rows [begin, end) of `size` elements, multiplied by a factor.
  T* gathered(const HeadRows<const T>& from, Index begin, Index end, Index size, double factor) {
    T* const to = take((end - begin) * size);
    for (Index i = begin; i < end; ++i)
      copy_row(from[i], static_cast<T>(factor), size, to + (i - begin) * size);
    return to;
  }

  /// Whether a query attends to one of the keys [first, first + width).
  bool any_seen(Index pair, std::span<const Range> ranges, Index first, Index width) const {
    const std::vector<Index>& positions = seen(pair).keys.positions;
    for (const Range& range : ranges) {
      const Range inside = range.within(first, width);
      if (inside.count() > 0 && !range.mask) return true;
      for (Index j = inside.from; j < inside.until; ++j)
        if (range.mask[positions[first + j]] != 0) return true;
    }
    return false;
  }

  /// Adds the bias to the scores of a query for the keys from `first` on, within the range; where
  /// the mask is 0 they become -∞.
  void adjust_scores(Index pair, Index query, const Range& range, Index first, T* scores) const {
    if (!bias_ && !range.mask) return;
    const Index* const position = seen(pair).keys.positions.data() + first;
    if (bias_) {
      const T* const bias = bias_ + p_.bias.offset(pair / p_.heads.k, pair % p_.heads.k,
                                                   seen(pair).queries.positions[query]);
      const Index stride = p_.bias.strides[3];
      if (stride != 0 && seen(pair).keys.count() == p_.s && range.count() > 0) {  // contiguous
        simd::add_scaled(T(1), bias + first + range.from, scores + range.from, range.count());
      } else {
        for (Index j = range.from; j < range.until; ++j) scores[j] += bias[stride * position[j]];
      }
    }
    if (!range.mask) return;
    for (Index j = range.from; j < range.until; ++j)
      if (range.mask[position[j]] == 0) scores[j] = -std::numeric_limits<T>::infinity();
  }

  /// Adds the gradients of the scores of a query to its row of dbias.
  void add_bias_gradient(Index pair, Index query, const Range& range, Index first, const T* dscores,
                         T* dbias) const {
    const Index* const position = seen(pair).keys.positions.data() + first;
    const Index t = p_.bias.strides[2] == 0 ? 1 : p_.t, s = p_.bias.strides[3] == 0 ? 1 : p_.s;
    const Index slice = p_.bias.strides[0] == 0 ? pair % p_.heads.k : pair;
    T* const row = dbias + (slice * t + (t == 1 ? 0 : seen(pair).queries.positions[query])) * s;
    if (s != 1 && seen(pair).keys.count() == p_.s && range.count() > 0) {
      simd::add_scaled(T(1), dscores + range.from, row + first + range.from, range.count());
    } else {
      for (Index j = range.from; j < range.until; ++j) row[s == 1 ? 0 : position[j]] += dscores[j];
    }
  }

  /// Sets the elements outside of a range to 0.
  static void clear_outside(const Range& range, Index width, T* row) {
    std::fill_n(row, range.from, T(0));
    std::fill(row + range.until, row + width, T(0));
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

  const AttentionProblem& p_;
  const Index a_ = p_.heads.a,
              a_v_ = p_.heads.a_v,  // Small blocks follow the shape of a mask more closely.
      block_ = p_.mask.values.defined() ? block_keys / 4 : block_keys;
  const T *q_, *kv_, *bias_;
  Tensor memory_;
  Index taken_ = 0;
  std::vector<T> kept_;
  PackedBlocks<T> keys_, values_, keys_across_, queries_, dy_;
  double scale_ = 1 / std::sqrt(static_cast<double>(a_));
};

}  // namespace

AttentionForward attention_forward(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o, const Tensor& bias) {
  const AttentionProblem p(q, kv, o, bias);
  Tensor y =
      Tensor::uninitialized(q.shape().with(-1, p.heads.k * p.heads.a_v), q.dtype(), "attention");
  Tensor norms = Tensor::uninitialized({p.b, o.heads, p.t, 2}, q.dtype(), "attention");
  const Index chunks = ceil_div(p.t, tile_queries);
  const auto compute = [&]<class T>(Index i, Index last, const T* q_data, const T* kv_data,
                                    const T* bias_data, T* y_data, T* norms_data) {
    for (HeadWork<T> work(p, q_data, kv_data, bias_data); i < last; ++i) {
      const Index begin = i % chunks * tile_queries;
      work.forward(i / chunks, begin, std::min(begin + tile_queries, p.t), y_data, norms_data);
    }
  };
  const detail::OrNull bias_or_null{p.bias.values};
  parallel_rows("attention", std::tie(q, kv, bias_or_null, y, norms), p.pairs() * chunks,
                pairs_of_tile(p), compute);
  return {y, norms};
}

AttentionBackward attention_backward(const Tensor& q, const Tensor& kv,
                                     const FusedAttentionOptions& o,
                                     const AttentionForward& forward, const Tensor& dy,
                                     const Tensor& bias, Tensor* dbias) {
  const AttentionProblem p(q, kv, o, bias);
  Tensor dq = Tensor::uninitialized(q.shape(), q.dtype(), "attention");
  Tensor dkv = (o.mask.defined() && !o.key_rows.defined()) || o.attention_mask.defined()
                   ? zeros(kv.shape(), kv.dtype())
                   : Tensor::uninitialized(kv.shape(), kv.dtype(), "attention");
  // Sentences with one bias add to its gradient one after another.
  const bool in_turn = dbias && p.bias.strides[0] == 0;
  const Index turns = in_turn ? std::max<Index>(p.b, 1) : 1, groups = p.b * p.heads.g / turns;
  if (dbias) {
    const Shape& extents = p.bias.values.shape();
    *dbias = zeros({extents[0], p.heads.k, extents[2], extents[3]}, q.dtype());
  }
  const auto compute = [&]<class T>(Index group, Index last, const T* q_data, const T* kv_data,
                                    const T* bias_data, const T* y, const T* norms,
                                    const T* dy_data, T* dq_data, T* dkv_data) {
    T* const dbias_data = dbias ? dbias->mutable_data<T>() : nullptr;
    HeadWork<T> work(p, q_data, kv_data, bias_data);
    for (; group < last; ++group)
      for (Index turn = 0; turn < turns; ++turn)
        work.backward(turn * groups + group, {y, norms, dy_data, dq_data, dkv_data, dbias_data});
  };
  const detail::OrNull bias_or_null{p.bias.values};
  parallel_rows("attention", std::tie(q, kv, bias_or_null, forward.y, forward.norms, dy, dq, dkv),
                groups, ceil_div(pairs_of_tile(p), turns * p.heads.k / p.heads.g), compute);
  if (dbias) *dbias = sum_to(*dbias, p.bias.values.shape()).reshape(bias.shape());
  return {dq, dkv};
}

AttentionStep attention_step(const Tensor& q, const Tensor& cache, const Tensor& rows,
                             const FusedAttentionOptions& o, const Tensor& bias, bool weights) {
  ShapeCheck check("attention_step");
  check("q", q, "B D")("rows", rows, "S B");
  const Index b = check['B'], d = check['D'], s = check['S'];
  const Heads heads("attention_step", o, d);
  const Index a = heads.a, a_v = heads.a_v, k = heads.k, group = heads.k / heads.g;
  ShapeCheck("attention_step")("cache", cache, fmt::format("R {}", heads.width()));
  require_same_dtype("attention_step", q, cache);
  const OfPairs of_pairs(bias);
  detail::require_fits_pairs("attention_step", "bias", bias, {b, k, 1, s});
  if (bias.defined()) require_same_dtype("attention_step", q, bias);
  const auto* row = checked_ids("attention_step", "row", rows, cache.dim(0), -1);
  AttentionStep result{Tensor::uninitialized({b, k * a_v}, q.dtype(), "attention_step"),
                       weights ? zeros({k, s, b}, q.dtype()) : Tensor()};
  const double scale = 1 / std::sqrt(static_cast<double>(a));
  const auto compute = [&]<class T>(Index begin, Index end, const T* q_data, const T* cache_data,
                                    const T* bias_data, T* y_data) {
    T* const alpha = weights ? result.weights.mutable_data<T>() : nullptr;
    std::vector<Index> seen(s);  // positions that the hypothesis attends to
    std::vector<const T*> entries(s);
    std::vector<T> scores(k * s), factors(k);
    for (Index hypothesis = begin; hypothesis < end; ++hypothesis) {
      Index n = 0;
      for (Index position = 0; position < s; ++position) {
        const Index at = row[position * b + hypothesis];
        if (at >= 0) seen[n] = position, entries[n++] = cache_data + at * heads.width();
      }
      simd::run(simd::StepScoresRow<T>{q_data + hypothesis * d, entries.data(), k, group, a,
                                       static_cast<T>(scale), scores.data()},
                n);
      for (Index head = 0; head < k; ++head) {
        T* const e = scores.data() + head * n;
        const T* const added = bias_data + of_pairs.offset(hypothesis, head, 0);
        for (Index i = 0; bias_data && i < n; ++i) e[i] += added[of_pairs.strides[3] * seen[i]];
        const T largest = std::max(simd::largest(e, n), std::numeric_limits<T>::lowest());
        const T total = simd::sum_exp(e, largest, n, e);
        factors[head] = total == 0 ? T(0) : 1 / total;
        for (Index i = 0; alpha && i < n; ++i)
          alpha[(head * s + seen[i]) * b + hypothesis] = factors[head] * e[i];
      }
      for (Index i = 0; i < n; ++i) entries[i] += heads.g * a;  // from keys to values
      simd::run(simd::StepSumRow<T>{scores.data(), factors.data(), entries.data(), k, group, a_v,
                                    y_data + hypothesis * k * a_v},
                n);
    }
  };
  const detail::OrNull bias_or_null{of_pairs.values};
  parallel_rows("attention_step", std::tie(q, cache, bias_or_null, result.y), b,
                rows_of_tile(2 * s * d), compute);
  return result;
}

}  // namespace attune
