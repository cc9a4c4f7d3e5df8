#include <algorithm>
#include <cmath>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/kernels/simd/functions.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {

namespace {

/// k_sb + coverage_sb w_c, or k without coverage.
Tensor covered(const Tensor& k, const Tensor& coverage, const Tensor& w_c) {
  if (!coverage.defined()) return k;
  ShapeCheck check("additive_scores");
  check("k", k, "S B A")("coverage", coverage, "S B")("w_c", w_c, "A");
  return k + coverage.reshape({check['S'], check['B'], 1}) * w_c;
}

}  // namespace

Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage, const Var& w_c) {
  if (coverage.defined() != w_c.defined()) return additive_scores(q, k, v);
  const Tensor keys = covered(k.value(), coverage.value(), w_c.value());
  return record("additive_scores", additive_scores_forward(q.value(), keys, v.value()))
      .joint(
          {q, k, v, coverage, w_c},
          [](auto& in, auto dy, auto& dx) {
            const auto& [q, k, v, coverage, w_c] = in;
            const auto& [dq, dk, dv, dcoverage, dw_c] = dx;
            const bool in_place = dk && !coverage.defined();
            Tensor d_keys = in_place ? Tensor() : zeros(k.shape(), k.dtype());
            const AdditiveScoresBackward d = additive_scores_backward(
                q, covered(k, coverage, w_c), v, dy[0], in_place ? dk->accumulator() : d_keys);
            if (dq) dq->add(d.dq);
            if (dv) dv->add(d.dv);
            // Rows of d_keys that are 0 add nothing, also if the factor is not finite.
            const auto times = [&](const Tensor& x) { return where(d_keys == 0, 0.0, d_keys * x); };
            if (dcoverage) dcoverage->add(sum(times(w_c), {-1}));
            if (dw_c) dw_c->add(sum(times(coverage.reshape({k.dim(0), k.dim(1), 1})), {0, 1}));
            if (dk && !in_place) dk->add(std::move(d_keys));
          },
          [](auto in) {
            return std::vector{reference::additive_scores(in[0], in[1], in[2], in[3], in[4])};
          });
}

namespace {

Var weighted_sum_forward(const Var& weights, const Var& memory) {
  return weighted_sum(weights, memory);
}

/// dmemory of weighted_sum: w_ksb dc_b in the elements of head k.
void weighted_sum_backward(const Tensor& weights, const Tensor& dc, GradientSlot& dmemory) {
  weighted_sum_backward_memory(weights, dc, dmemory.accumulator());
}
void weighted_sum_backward(const Var& weights, const Var& dc, SlotOf<Var>& dmemory) {
  const Index heads = weights.rank() == 2 ? 1 : weights.dim(0), S = weights.dim(-2), B = dc.dim(0),
              D = dc.dim(1);
  const Var w = permute(reshape(weights, {heads, S, B, 1}), {1, 2, 0, 3}),
            d = reshape(dc, {B, heads, D / heads});
  dmemory.add(reshape(detail::without_discarded(w, d, -1) * detail::without_discarded(d, w, -1),
                      {S, B, D}));
}

}  // namespace

Var dot_scores(const Var& q, const Var& k, Integer heads) {
  return record("dot_scores", dot_scores_forward(q.value(), k.value(), heads))
      .wrt(q, [k]<class V>(const V& de) { return weighted_sum_forward(de, captured<V>(k)); })
      .wrt(k, [q]<class V>(const V& de, SlotOf<V>& dk) {
        weighted_sum_backward(de, captured<V>(q), dk);
      });
}

Var weighted_sum(const Var& weights, const Var& memory) {
  return record("weighted_sum", weighted_sum_forward(weights.value(), memory.value()))
      .wrt(weights,
           [weights, memory]<class V>(const V& dc) {
             if constexpr (std::is_same_v<V, Tensor>) {
               return weighted_sum_backward_weights(weights.value(), memory.value(), dc);
             } else {
               const Index heads = weights.rank() == 2 ? 1 : weights.dim(0), B = dc.dim(0);
               const Tensor of_head = dc.value().reshape({B, heads, dc.dim(1) / heads}) != 0,
                            used = transpose(sum(of_head, {-1}) != 0, 0, 1);  // (heads, B)
               return where((weights != 0) * (heads == 1 ? used : unsqueeze<Tensor>(used, 1)),
                            dot_scores(dc, memory, heads), 0.0);
             }
           })
      .wrt(memory, [weights]<class V>(const V& dc, SlotOf<V>& dmemory) {
        weighted_sum_backward(captured<V>(weights), dc, dmemory);
      });
}

namespace {

/// x with one row per token (N, D) as (T, B, D), with zeros at padding; x if it has padding already.
Var with_padding(const Var& x, const Tensor& rows) {
  if (x.rank() == 3) return x;
  if (x.dim(0) == 0) return zeros(rows.shape().inserted(2, x.dim(1)), x.dtype());
  return where(unsqueeze(rows >= 0, -1), gather(x, maximum(rows, 0)), 0.0);
}

/// reference::attention, also of sequences without padding.
Var packed_attention(const Var& q, const Var& kv, const FusedAttentionOptions& o, const Var& bias) {
  Var memory = with_padding(kv, o.key_rows);
  if (o.mask.defined()) memory = where(unsqueeze<Tensor>(o.mask, -1), memory, 0.0);
  if (o.attention_mask.defined()) {  // keys that no query attends to may be infinite
    const Tensor pairs = o.attention_mask.to(DType::f32);
    const Tensor seen = max(pairs.reshape(detail::with_rank_4(pairs.shape())), {1, 2});  // (B, S)
    memory = where(unsqueeze<Tensor>(transpose(seen, 0, 1), -1), memory, 0.0);
  }
  const Var y = reference::attention(with_padding(q, o.query_rows), memory, o, bias);
  if (q.rank() == 3) return y;
  const Tensor rows = o.query_rows.reshape({-1}), used = nonzero(rows >= 0).reshape({-1});
  return scatter_add(zeros(q.shape().with(-1, y.dim(-1)), q.dtype()), gather(rows, used),
                     gather(reshape(y, {-1, y.dim(-1)}), used));
}

}  // namespace

Var attention(const Var& q, const Var& kv, const FusedAttentionOptions& options, const Var& bias) {
  const AttentionForward forward = attention_forward(q.value(), kv.value(), options, bias.value());
  return record("attention", forward.y)
      .joint(
          {q, kv, bias},
          [options, forward](auto& in, auto dy, auto& dx) {
            Tensor dbias;
            AttentionBackward d = attention_backward(in[0], in[1], options, forward, dy[0], in[2],
                                                     dx[2] ? &dbias : nullptr);
            if (dx[0]) dx[0]->add(std::move(d.dq));
            if (dx[1]) dx[1]->add(std::move(d.dkv));
            if (dx[2]) dx[2]->add(std::move(dbias));
          },
          [options](auto in) {
            return std::vector{packed_attention(in[0], in[1], options, in[2])};
          });
}

namespace {

/// The angles of rotary: cos and sin of pθ_i, (positions..., A/2).
struct Rotation {
  Rotation(const Tensor& positions, Index size, double base, DType dtype) {
    const Tensor i = arange(size / 2, DType::f64);
    const Tensor p = positions.to(DType::f64).reshape(positions.shape().inserted(-1, 1));
    const Tensor angle = p * exp(i * (-2 * simd::log(base) / static_cast<double>(size)));
    cos = attune::cos(angle).to(dtype), sin = attune::sin(angle).to(dtype);
  }
  Tensor cos, sin;
};

/// Rotates rows of x by the angles, or by their negatives if `sign` is -1.
Tensor rotate(const Tensor& x, const Rotation& by, Index heads, Index size, double sign) {
  Tensor y = x.clone();
  const Index half = size / 2, n = x.dim(-1), rows = x.size() / std::max<Index>(n, 1),
              per_position = rows / std::max<Index>(by.cos.size() / half, 1);
  parallel_rows("rotary", std::tie(x, by.cos, by.sin, y), rows, rows_of_tile(n),
                [&]<class T>(Index row, const T* from, const T* cos, const T* sin, T* to) {
                  cos += row / per_position * half, sin += row / per_position * half;
                  for (Index head = 0; head < heads; ++head) {
                    const T* const a = from + row * n + head * size;
                    T* const b = to + row * n + head * size;
                    for (Index i = 0; i < half; ++i) {
                      const T s = static_cast<T>(sign) * sin[i];
                      b[i] = a[i] * cos[i] - a[i + half] * s;
                      b[i + half] = a[i] * s + a[i + half] * cos[i];
                    }
                  }
                });
  return y;
}

Var rotary_of(const Var& x, const Rotation& by, Index heads, Index size, double sign) {
  return record("rotary", rotate(x.value(), by, heads, size, sign))
      .wrt(x, [by, heads, size, sign]<class V>(const V& dy) {
        if constexpr (std::is_same_v<V, Tensor>)
          return rotate(dy, by, heads, size, -sign);
        else
          return rotary_of(dy, by, heads, size, -sign);
      });
}

}  // namespace

Var rotary(const Var& x, const Tensor& positions, Integer heads, Integer size, double base) {
  const Shape &shape = x.shape(), &at = positions.shape();
  if (size < 2 || size % 2 != 0) fail("rotary", "the size of a head, {}, is not even", size);
  if (!(base > 0 && base < INFINITY)) fail("rotary", "the base {} is not in (0, inf)", base);
  if (x.rank() < 1 || heads < 1 || heads * size > x.dim(-1))
    fail("rotary", "{} heads of {} elements do not fit x {}", heads, size, shape);
  const bool fits = positions.dtype() == DType::i32 && at.rank() < shape.rank() &&
                    std::equal(at.begin(), at.end(), shape.begin());
  if (!fits) fail("rotary", "positions {} do not fit x {}", describe(positions), shape);
  return rotary_of(x, Rotation(positions, size, base, x.dtype()), heads, size, 1);
}

Var attention_weights(const Var& q, const Var& kv, const FusedAttentionOptions& o,
                      AttentionWeights weights, const Var& bias) {
  if (weights == AttentionWeights::no) return {};
  FusedAttentionOptions padded = o;
  padded.query_rows = padded.key_rows = {};
  const Shape pairs =
      detail::checked_pairs("attention_weights", q.value(), kv.value(), padded, bias.value());
  const Index B = pairs[0], T = pairs[2], S = pairs[3];
  const detail::Heads heads("attention_weights", o, q.dim(2));
  ShapeCheck check("attention_weights");
  check("q", q, "T B D")("kv", kv, "S B W");
  if (o.query_rows.defined()) check("query_rows", o.query_rows, "T B");
  if (o.key_rows.defined()) check("key_rows", o.key_rows, "S B");
  const auto split_heads = [&](const Var& x, Index n) {  // (., B, n A) -> (B, n, ., A)
    return permute(reshape(x, {x.dim(0), B, n, heads.a}), {1, 2, 0, 3});
  };
  Tensor seen = ones({B, 1, T, S}, q.dtype());
  const auto remove = [&](const Tensor& used, Index queries, Index keys) {
    seen = seen * permute(used.to(q.dtype()), {1, 0}).reshape({B, 1, queries, keys});
  };
  if (o.mask.defined()) remove(o.mask, 1, S);
  if (o.key_rows.defined()) remove(o.key_rows >= 0, 1, S);
  if (o.query_rows.defined()) remove(o.query_rows >= 0, T, 1);
  if (o.causal) {
    const Tensor last = arange(T, q.dtype()) + static_cast<double>(S - T);
    seen = seen * less_equal(arange(S, q.dtype()), last.reshape({T, 1}));
  }
  if (o.attention_mask.defined())
    seen = seen *
           o.attention_mask.to(q.dtype()).reshape(detail::with_rank_4(o.attention_mask.shape()));
  const Var queries = split_heads(q, heads.k),
            keys = reference::repeat_heads(
                split_heads(slice(kv, -1, 0, heads.g * heads.a), heads.g), heads.k);
  const Var added = bias.defined() ? reshape(bias, detail::with_rank_4(bias.shape())) : bias;
  constexpr Index block = 64;  // bounds the memory
  std::vector<Var> all;
  for (Index begin = 0; begin == 0 || begin < T; begin += block) {
    const Index end = std::min(T, begin + block);
    Var scores = batched_matmul(slice(queries, 2, begin, end), keys, {.b = true}) /
                 std::sqrt(static_cast<double>(heads.a));
    if (added.defined())
      scores = scores + (added.dim(2) == 1 ? added : slice(added, 2, begin, end));
    const Var w = softmax(scores, -1, Mask::unchecked(slice(seen, 2, begin, end)));
    all.push_back(weights == AttentionWeights::mean ? permute(mean(w, {1}), {1, 2, 0})
                                                    : permute(w, {2, 1, 3, 0}));
  }
  return concat(all, 0);
}

static Var window_forward(const Var& x, const Tensor& positions) { return window(x, positions); }

Var window(const Var& x, const Tensor& positions) {
  return record("window", window_forward(x.value(), positions))
      .wrt(x, [positions, steps = x.dim(0)]<class V>(const V& dy, SlotOf<V>& dx) {
        if constexpr (std::is_same_v<V, Tensor>) {
          window_backward(dy, positions, dx.accumulator());
        } else {
          dx.add(unwindow(dy, positions, steps));
        }
      });
}

Var unwindow(const Var& x, const Tensor& positions, Integer steps) {
  Tensor y = zeros(x.shape().with(0, steps), x.dtype());
  window_backward(x.value(), positions, y);
  return record("unwindow", y).wrt(x, [positions](const auto& dy) {
    return window_forward(dy, positions);
  });
}

Var unit_vectors(const Var& x) { return x / maximum(norm(x, -1, KeepAxes::yes), 1e-12); }

}  // namespace attune
