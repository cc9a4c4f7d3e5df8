#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

/// Sentences per tile.
constexpr Index tile_batch = 8;

/// Extents of weights or scores (K, S, B), queries (B, D) and memory (S, B, D); `a` is D / K.
struct HeadExtents {
  Index heads, s, b, a;

  Index rows() const { return s * b; }
  /// Rows per tile. `work` is the cost of an element relative to a multiply-add.
  Index tile(Index work = 1) const { return rows_of_tile(heads * a * work); }

  /// Calls body(weight, query, part), the offsets for each head, for rows [begin, end) of (S·B, D).
  template <class Body>
  void for_rows(Index begin, Index end, const Body& body) const {
    for (Index row = begin; row < end; ++row) {
      for (Index head = 0; head < heads; ++head)
        body(head * rows() + row, (row % b * heads + head) * a, (row * heads + head) * a);
    }
  }
  /// The same for the rows of sentences [begin, end), step by step: a body may add to a sum of its
  /// sentence without a race, and the rows of one step are contiguous in memory.
  template <class Body>
  void for_sentences(Index begin, Index end, const Body& body) const {
    for (Index first = begin; first < rows(); first += b)
      for_rows(first, first + end - begin, body);
  }
};

HeadExtents check_additive(const Tensor& q, const Tensor& k, const Tensor& v) {
  ShapeCheck check("additive_scores");
  check("q", q, "B A")("k", k, "S B A")("v", v, "A");
  require_same_dtype("additive_scores", q, k);
  require_same_dtype("additive_scores", q, v);
  return {1, check['S'], check['B'], check['A']};
}

HeadExtents heads_of(const char* operation, const Tensor& weights, const char* name,
                     const Tensor& rows, const Tensor& dc = {}) {
  ShapeCheck check(operation);
  const bool one = weights.rank() == 2;
  check("weights", weights, one ? "S B" : "K S B")(name, rows, "S B D");
  require_same_dtype(operation, weights, rows);
  if (dc.defined()) check("dc", dc, "B D");
  const Index heads = one ? 1 : check['K'];
  if (heads == 0 || check['D'] % heads != 0)
    fail(operation, "{} {} do not divide into {} heads", name, rows.shape(), heads);
  return {heads, check['S'], check['B'], check['D'] / heads};
}

/// Checks positions (W, B) against a sequence (S, B, ...); returns the size of one row of x.
Index check_window(const Tensor& x, const Tensor& positions) {
  if (x.rank() < 2) fail("window", "x (S, B, ...) is {}", x.shape());
  ShapeCheck check("window");
  check("positions", positions, "W B")("x", x, x.rank() == 2 ? "S B" : "S B D");
  checked_ids("window", "position", positions, x.dim(0), -1);
  return x.shape().product(2, x.rank());
}

}  // namespace

Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  const HeadExtents n = check_additive(q, k, v);
  Tensor e = Tensor::uninitialized({n.s, n.b}, q.dtype(), "additive_scores");
  constexpr Index work_of_tanh = 8;
  parallel_rows("additive_scores", std::tie(q, k, v, e), n.rows(), n.tile(work_of_tanh),
                [=]<class T>(Index row, const T* q, const T* k, const T* v, T* e) {
                  e[row] = simd::additive_score(q + row % n.b * n.a, k + row * n.a, v, n.a);
                });
  return e;
}

AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk) {
  const HeadExtents n = check_additive(q, k, v);
  Tensor dq = zeros(q.shape(), q.dtype());
  Tensor dv = zeros({ceil_div(n.b, tile_batch), n.a}, q.dtype());  // a sum per tile
  const auto compute = [=]<class T>(Index begin, Index end, const T* q, const T* k, const T* v,
                                    const T* de, T* dk, T* dq, T* dv) {
    n.for_sentences(begin, end, [=](Index score, Index query, Index key) {
      if (de[score] == 0) return;  // padding
      simd::run(simd::AdditiveScoreBackwardRow<T>{q + query, k + key, v, de[score], dq + query,
                                                  dk + key, dv + begin / tile_batch * n.a},
                n.a);
    });
  };
  parallel_rows("additive_scores", std::tie(q, k, v, de, dk, dq, dv), n.b, tile_batch, compute);
  return {dq, sum(dv, {0})};
}

Tensor dot_scores_forward(const Tensor& q, const Tensor& k, Integer heads) {
  ShapeCheck check("dot_scores");
  check("q", q, "B A")("k", k, "S B A");
  require_same_dtype("dot_scores", q, k);
  const Shape shape =
      heads == 1 ? Shape{check['S'], check['B']} : Shape{heads, check['S'], check['B']};
  Tensor e = Tensor::uninitialized(shape, q.dtype(), "dot_scores");
  const HeadExtents n = heads_of("dot_scores", e, "k", k);
  const auto compute = [=](Index begin, Index end, const auto* q, const auto* k, auto* e) {
    n.for_rows(begin, end, [=](Index score, Index query, Index key) {
      e[score] = simd::dot(q + query, k + key, n.a);
    });
  };
  parallel_rows("dot_scores", std::tie(q, k, e), n.rows(), n.tile(), compute);
  return e;
}

Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", memory);
  Tensor c = Tensor::uninitialized({n.b, n.heads * n.a}, weights.dtype(), "weighted_sum");
  fill(c, 0);
  const auto compute = [=](Index begin, Index end, const auto* alpha, const auto* h, auto* c) {
    n.for_sentences(begin, end, [=](Index weight, Index context, Index row) {
      if (alpha[weight] != 0) simd::add_scaled(alpha[weight], h + row, c + context, n.a);
    });
  };
  parallel_rows("weighted_sum", std::tie(weights, memory, c), n.b, tile_batch, compute);
  return c;
}

Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory,
                                     const Tensor& dc) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", memory, dc);
  Tensor dweights = Tensor::uninitialized(weights.shape(), weights.dtype());
  const auto compute = [=]<class T>(Index begin, Index end, const T* alpha, const T* h, const T* dc,
                                    T* to) {
    n.for_rows(begin, end, [=](Index weight, Index context, Index part) {
      const bool unused = alpha[weight] == 0 || detail::is_zero(dc + context, n.a);
      to[weight] = unused ? T(0) : simd::dot(h + part, dc + context, n.a);
    });
  };
  parallel_rows("weighted_sum", std::tie(weights, memory, dc, dweights), n.rows(), n.tile(),
                compute);
  return dweights;
}

void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory) {
  const HeadExtents n = heads_of("weighted_sum", weights, "memory", dmemory, dc);
  const auto compute = [=](Index begin, Index end, const auto* alpha, const auto* dc, auto* dh) {
    n.for_rows(begin, end, [=](Index weight, Index context, Index part) {
      if (alpha[weight] == 0 || detail::is_zero(dc + context, n.a)) return;
      simd::add_scaled(alpha[weight], dc + context, dh + part, n.a);
    });
  };
  parallel_rows("weighted_sum", std::tie(weights, dc, dmemory), n.rows(), n.tile(), compute);
}

Tensor window_forward(const Tensor& x, const Tensor& positions) {
  const Index n = check_window(x, positions), batch = x.dim(1);
  Tensor y = Tensor::uninitialized(x.shape().with(0, positions.dim(0)), x.dtype(), "window");
  const auto* position = positions.data<std::int32_t>();
  const auto compute = [=]<class T>(Index i, const T* from, T* to) {
    if (position[i] < 0) {
      std::fill_n(to + i * n, n, T(0));
    } else {
      std::copy_n(from + (position[i] * batch + i % batch) * n, n, to + i * n);
    }
  };
  parallel_rows("window", std::tie(x, y), positions.size(), rows_of_tile(n), compute);
  return y;
}

void window_backward(const Tensor& dy, const Tensor& positions, Tensor& dx) {
  const Index n = check_window(dx, positions), batch = dx.dim(1);
  require_same_dtype("window", dy, dx);
  if (dy.shape() != dx.shape().with(0, positions.dim(0)))
    fail("window", "shapes do not fit: windows {}, positions {}, sequence {}", dy.shape(),
         positions.shape(), dx.shape());
  const auto* position = positions.data<std::int32_t>();
  const auto compute = [&](Index b, const auto* from, auto* to) {
    for (Index i = b; i < positions.size(); i += batch) {
      if (position[i] < 0) continue;
      auto* row = to + (position[i] * batch + b) * n;
      for (Index j = 0; j < n; ++j) row[j] += from[i * n + j];
    }
  };
  parallel_rows("window", std::tie(dy, dx), batch, tile_batch, compute);
}

}  // namespace attune
