#include <attune/tensor/attention.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune {
namespace {

/// Sentences of a batch in one tile of work.
constexpr Index tile_batch = 8;

struct Extents {
  Index s, b, a;
};

Extents check_scores(const Tensor& q, const Tensor& k, const Tensor& v) {
  ShapeCheck check("additive_scores");
  check("q", q.shape(), "B A")("k", k.shape(), "S B A")("v", v.shape(), "A");
  require_same_dtype("additive_scores", q, k);
  require_same_dtype("additive_scores", q, v);
  return {check['S'], check['B'], check['A']};
}

Extents check_sum(const Tensor& weights, const Tensor& memory) {
  ShapeCheck check("weighted_sum");
  check("weights", weights.shape(), "S B")("memory", memory.shape(), "S B D");
  require_same_dtype("weighted_sum", weights, memory);
  return {check['S'], check['B'], check['D']};
}

}  // namespace

Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto [s_count, b_count, a] = check_scores(q, k, v);
  return visit_floating(
      "additive_scores", q, [&, s_count = s_count, b_count = b_count, a = a](auto zero) {
        using T = decltype(zero);
        Tensor e = Tensor::uninitialized({s_count, b_count}, q.dtype());
        const T *q_data = q.data<T>(), *k_data = k.data<T>(), *v_data = v.data<T>();
        T* e_data = e.mutable_data<T>();
        const Index rows = std::max<Index>(1, detail::elementwise_tile / 8 / std::max<Index>(1, a));
        parallel_ranges(s_count * b_count, rows, [&](Index begin, Index end) {
          for (Index i = begin; i < end; ++i) {
            e_data[i] = simd::additive_score(q_data + i % b_count * a, k_data + i * a, v_data,
                                             static_cast<std::size_t>(a));
          }
        });
        return e;
      });
}

AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk) {
  const auto [s_count, b_count, a] = check_scores(q, k, v);
  ShapeCheck check("additive_scores");
  check("k", k.shape(), "S B A")("de", de.shape(), "S B")("dk", dk.shape(), "S B A");
  return visit_floating(
      "additive_scores", q, [&, s_count = s_count, b_count = b_count, a = a](auto zero) {
        using T = decltype(zero);
        const Index tiles = (b_count + tile_batch - 1) / tile_batch;
        AdditiveScoresBackward out{zeros(q.shape(), q.dtype()), zeros(v.shape(), q.dtype())};
        Tensor dv_of_tile = zeros({std::max<Index>(1, tiles), a}, q.dtype());
        const T *q_data = q.data<T>(), *k_data = k.data<T>(), *v_data = v.data<T>(),
                *de_data = de.data<T>();
        T *dk_data = dk.mutable_data<T>(), *dq = out.dq.mutable_data<T>(),
          *dv = dv_of_tile.mutable_data<T>();
        parallel_ranges(b_count, tile_batch, [&](Index begin, Index end) {
          for (Index b = begin; b < end; ++b) {
            for (Index s = 0; s < s_count; ++s) {
              const Index at = s * b_count + b;
              if (de_data[at] == 0) continue;  // padding
              simd::run(simd::AdditiveScoreBackwardRow<T>{q_data + b * a, k_data + at * a, v_data,
                                                          de_data[at], dq + b * a, dk_data + at * a,
                                                          dv + begin / tile_batch * a},
                        static_cast<std::size_t>(a));
            }
          }
        });
        T* dv_total = out.dv.mutable_data<T>();
        for (Index tile = 0; tile < tiles; ++tile) {
          for (Index i = 0; i < a; ++i) dv_total[i] += dv[tile * a + i];
        }
        return out;
      });
}

Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory) {
  const auto [s_count, b_count, d] = check_sum(weights, memory);
  return visit_floating(
      "weighted_sum", weights, [&, s_count = s_count, b_count = b_count, d = d](auto zero) {
        using T = decltype(zero);
        Tensor c = zeros({b_count, d}, weights.dtype());
        const T *alpha = weights.data<T>(), *h = memory.data<T>();
        T* to = c.mutable_data<T>();
        parallel_ranges(b_count, tile_batch, [&](Index begin, Index end) {
          for (Index b = begin; b < end; ++b) {
            for (Index s = 0; s < s_count; ++s) {
              const Index at = s * b_count + b;
              if (alpha[at] != 0)
                simd::add_scaled(alpha[at], h + at * d, to + b * d, static_cast<std::size_t>(d));
            }
          }
        });
        return c;
      });
}

Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory,
                                     const Tensor& dc) {
  const auto [s_count, b_count, d] = check_sum(weights, memory);
  return visit_floating(
      "weighted_sum", weights, [&, s_count = s_count, b_count = b_count, d = d](auto zero) {
        using T = decltype(zero);
        Tensor dweights = Tensor::uninitialized(weights.shape(), weights.dtype());
        const T *alpha = weights.data<T>(), *h = memory.data<T>(), *from = dc.data<T>();
        T* to = dweights.mutable_data<T>();
        const Index rows = std::max<Index>(1, detail::elementwise_tile / std::max<Index>(1, d));
        parallel_ranges(s_count * b_count, rows, [&](Index begin, Index end) {
          for (Index at = begin; at < end; ++at) {
            to[at] = alpha[at] == 0 ? T(0)
                                    : simd::dot(h + at * d, from + at % b_count * d,
                                                static_cast<std::size_t>(d));
          }
        });
        return dweights;
      });
}

void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory) {
  const auto [s_count, b_count, d] = check_sum(weights, dmemory);
  visit_floating(
      "weighted_sum", weights, [&, s_count = s_count, b_count = b_count, d = d](auto zero) {
        using T = decltype(zero);
        const T *alpha = weights.data<T>(), *from = dc.data<T>();
        T* to = dmemory.mutable_data<T>();
        const Index rows = std::max<Index>(1, detail::elementwise_tile / std::max<Index>(1, d));
        parallel_ranges(s_count * b_count, rows, [&](Index begin, Index end) {
          for (Index at = begin; at < end; ++at) {
            if (alpha[at] == 0) continue;
            simd::add_scaled(alpha[at], from + at % b_count * d, to + at * d,
                             static_cast<std::size_t>(d));
          }
        });
      });
}

}  // namespace attune
