#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/scores.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune {
namespace {

/// Sentences of a batch in one tile of work.
constexpr Index tile_batch = 8;

/// Weights or scores (K, S, B), with queries (B, D) and rows of a memory (S, B, D), of which each
/// of K heads has `a` elements.
struct HeadExtents {
  Index heads, s, b, a;

  /// body(weight, query, row), where these begin for a head, for rows [begin, end) of (S·B, D).
  template <class Body>
  void for_rows(Index begin, Index end, Body body) const {
    for (Index at = begin; at < end; ++at) {
      for (Index head = 0; head < heads; ++head) {
        body(head * s * b + at, (at % b * heads + head) * a, (at * heads + head) * a);
      }
    }
  }

  /// All rows, side by side. `work` is that of an element, a multiply-add being 1.
  template <class Body>
  void for_each(Body body, Index work = 1) const {
    parallel_ranges(s * b, detail::runs_of_tile(heads * a * work),
                    [&](Index begin, Index end) { for_rows(begin, end, body); });
  }

  /// Sentences in parallel, but the rows of one sentence in order, as the body adds to a sum of
  /// that sentence. A tile has several sentences, whose rows of one step are contiguous in memory.
  template <class Body>
  void for_each_sentence(Body body) const {
    parallel_ranges(b, tile_batch, [&](Index begin, Index end) {
      for (Index i = 0; i < s; ++i) for_rows(i * b + begin, i * b + end, body);
    });
  }
};

HeadExtents check_additive(const Tensor& q, const Tensor& k, const Tensor& v) {
  ShapeCheck check("additive_scores");
  check("q", q.shape(), "B A")("k", k.shape(), "S B A")("v", v.shape(), "A");
  require_same_dtype("additive_scores", q, k);
  require_same_dtype("additive_scores", q, v);
  return {1, check['S'], check['B'], check['A']};
}

HeadExtents heads_of(const char* operation, const Tensor& weights, const char* name,
                     const Tensor& rows, const Tensor& dc = {}) {
  ShapeCheck check(operation);
  const bool one = weights.rank() == 2;
  check("weights", weights.shape(), one ? "S B" : "K S B")(name, rows.shape(), "S B D");
  require_same_dtype(operation, weights, rows);
  if (dc.defined()) check("dc", dc.shape(), "B D");
  const Index heads = one ? 1 : check['K'];
  if (heads == 0 || check['D'] % heads != 0) {
    fail(operation,
         fmt::format("{} {} do not divide into {} heads", name, to_string(rows.shape()), heads));
  }
  return {heads, check['S'], check['B'], check['D'] / heads};
}

/// Checks positions (W, B) against a sequence (S, B, ...); returns the elements of one of its rows.
Index check_window(const Tensor& x, const Tensor& positions) {
  if (x.rank() < 2) fail("window", fmt::format("{} has no (S, B)", to_string(x.shape())));
  ShapeCheck check("window");
  check("positions", positions.shape(), "W B")("x", x.shape(), x.rank() == 2 ? "S B" : "S B D");
  numbers_below("window", "position", positions, x.dim(0), -1);
  return x.shape().product(2, x.rank());
}

}  // namespace

Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  const HeadExtents n = check_additive(q, k, v);
  Tensor e = Tensor::uninitialized({n.s, n.b}, q.dtype(), "additive_scores");
  const auto compute = [&]<class T>(const T* q_data, const T* k_data, const T* v_data, T* e_data) {
    constexpr Index work_of_tanh = 8;
    n.for_each(
        [&](Index score, Index query, Index key) {
          e_data[score] = simd::additive_score(q_data + query, k_data + key, v_data, n.a);
        },
        work_of_tanh);
  };
  visit_elements("additive_scores", std::tie(q, k, v, e), compute);
  return e;
}

AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk) {
  const HeadExtents n = check_additive(q, k, v);
  Tensor dq = zeros(q.shape(), q.dtype());
  Tensor dv = zeros({(n.b + tile_batch - 1) / tile_batch, n.a}, q.dtype());  // of each tile
  const auto compute = [&]<class T>(const T* q_data, const T* k_data, const T* v_data,
                                    const T* de_data, T* dk_data, T* dq_data, T* dv_data) {
    n.for_each_sentence([&](Index score, Index query, Index key) {
      if (de_data[score] == 0) return;  // padding
      T* dv_of_tile = dv_data + score % n.b / tile_batch * n.a;
      simd::run(
          simd::AdditiveScoreBackwardRow<T>{q_data + query, k_data + key, v_data, de_data[score],
                                            dq_data + query, dk_data + key, dv_of_tile},
          n.a);
    });
  };
  visit_elements("additive_scores", std::tie(q, k, v, de, dk, dq, dv), compute);
  return {dq, sum(dv, {0})};
}

Tensor dot_scores_forward(const Tensor& q, const Tensor& k, Index heads) {
  ShapeCheck check("dot_scores");
  check("q", q.shape(), "B A")("k", k.shape(), "S B A");
  require_same_dtype("dot_scores", q, k);
  const Shape shape =
      heads == 1 ? Shape{check['S'], check['B']} : Shape{heads, check['S'], check['B']};
  Tensor e = Tensor::uninitialized(shape, q.dtype(), "dot_scores");
  const HeadExtents n = heads_of("dot_scores", e, "k", k);
  const auto compute = [&](const auto* q_data, const auto* k_data, auto* e_data) {
    n.for_each([&](Index score, Index query, Index key) {
      e_data[score] = simd::dot(q_data + query, k_data + key, n.a);
    });
  };
  visit_elements("dot_scores", std::tie(q, k, e), compute);
  return e;
}

Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", memory);
  Tensor c = Tensor::uninitialized({n.b, n.heads * n.a}, weights.dtype(), "weighted_sum");
  fill(c, 0);
  const auto compute = [&](const auto* alpha, const auto* h, auto* to) {
    n.for_each_sentence([&](Index weight, Index context, Index row) {
      if (alpha[weight] != 0) simd::add_scaled(alpha[weight], h + row, to + context, n.a);
    });
  };
  visit_elements("weighted_sum", std::tie(weights, memory, c), compute);
  return c;
}

Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory,
                                     const Tensor& dc) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", memory, dc);
  Tensor dweights = Tensor::uninitialized(weights.shape(), weights.dtype());
  const auto compute = [&]<class T>(const T* alpha, const T* h, const T* from, T* to) {
    n.for_each([&](Index weight, Index context, Index row) {
      to[weight] = alpha[weight] == 0 ? T(0) : simd::dot(h + row, from + context, n.a);
    });
  };
  visit_elements("weighted_sum", std::tie(weights, memory, dc, dweights), compute);
  return dweights;
}

void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", dmemory, dc);
  const auto compute = [&](const auto* alpha, const auto* from, auto* to) {
    n.for_each([&](Index weight, Index context, Index row) {
      if (alpha[weight] != 0) simd::add_scaled(alpha[weight], from + context, to + row, n.a);
    });
  };
  visit_elements("weighted_sum", std::tie(weights, dc, dmemory), compute);
}

Tensor window_forward(const Tensor& x, const Tensor& positions) {
  const Index n = check_window(x, positions), batch = x.dim(1);
  Tensor y = Tensor::uninitialized(x.shape().with(0, positions.dim(0)), x.dtype(), "window");
  const auto* position = positions.data<std::int32_t>();
  visit_elements("window", std::tie(x, y), [&]<class T>(const T* from, T* to) {
    parallel_each(positions.size(), detail::runs_of_tile(n), [&](Index i) {
      if (position[i] < 0) {
        std::fill_n(to + i * n, n, T(0));
      } else {
        std::copy_n(from + (position[i] * batch + i % batch) * n, n, to + i * n);
      }
    });
  });
  return y;
}

void window_backward(const Tensor& dy, const Tensor& positions, Tensor& dx) {
  const Index n = check_window(dx, positions), batch = dx.dim(1);
  require_same_dtype("window", dy, dx);
  if (dy.shape() != dx.shape().with(0, positions.dim(0))) {
    fail("window",
         fmt::format("shapes do not fit: windows {}, positions {}, sequence {}",
                     to_string(dy.shape()), to_string(positions.shape()), to_string(dx.shape())));
  }
  const auto* position = positions.data<std::int32_t>();
  visit_elements("window", std::tie(dy, dx), [&](const auto* from, auto* to) {
    parallel_ranges(batch, tile_batch, [&](Index begin, Index end) {
      for (Index w = 0; w < positions.dim(0); ++w) {
        for (Index i = w * batch + begin; i < w * batch + end; ++i) {
          if (position[i] < 0) continue;
          auto* row = to + (position[i] * batch + i % batch) * n;
          for (Index j = 0; j < n; ++j) row[j] += from[i * n + j];
        }
      }
    });
  });
}

}  // namespace attune
