// Functions of one element, or of two under broadcasting.
#pragma once

#include <attune/tensor/tensor.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {

namespace detail {

/// Elements of one tile of elementwise work: large enough to hide the cost of handing it out.
inline constexpr Index elementwise_tile = 16384;
/// Runs of n elements in one tile.
constexpr Index runs_of_tile(Index n) {
  return std::max<Index>(1, elementwise_tile / std::max<Index>(1, n));
}

/// How two shapes broadcast: `outer` runs of `inner` elements, in which each operand either
/// advances (step 1) or stays (step 0).
struct BroadcastPlan {
  Shape shape;
  Index outer = 1, inner = 1;
  Index step_a = 1, step_b = 1;

  BroadcastPlan(const char* operation, const Shape& a, const Shape& b);
  /// First elements of a and of b in the outer run.
  std::pair<Index, Index> offsets(Index run) const;

 private:
  int outer_axes_ = 0;
  std::array<Index, Shape::max_rank> strides_a_{}, strides_b_{};
};

/// y = f(x), where f(from, to, n) handles n elements.
template <class F>
Tensor map_runs(const char* operation, const Tensor& x, F f) {
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), operation);
  visit_elements(operation, std::tie(x, y), [&](const auto* from, auto* to) {
    parallel_ranges(x.size(), elementwise_tile,
                    [&](Index begin, Index end) { f(from + begin, to + begin, end - begin); });
  });
  return y;
}

/// One run: the steps are constants in each branch, so that each loop vectorises.
template <class T, class F>
void zip_run(const T* a, Index step_a, const T* b, Index step_b, T* y, Index n, const F& f) {
  if (step_a == 1 && step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], *b);
  } else if (step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(*a, b[i]);
  } else {
    std::fill_n(y, n, f(*a, *b));
  }
}

}  // namespace detail

/// y = f(x), element by element; f takes and returns the element type (write it with `auto`). The
/// operation is named in errors.
template <class F>
Tensor map(const char* operation, const Tensor& x, F f) {
  return detail::map_runs(operation, x, [&](const auto* from, auto* to, Index n) {
    for (Index i = 0; i < n; ++i) to[i] = f(from[i]);
  });
}
template <class F>
Tensor map(const Tensor& x, F f) {
  return map("map", x, f);
}

/// y = f(a, b), element by element under NumPy's broadcasting; dtypes must agree.
template <class F>
Tensor zip(const char* operation, const Tensor& a, const Tensor& b, F f) {
  require_same_dtype(operation, a, b);
  if (!is_floating(a.dtype())) fail_not_floating(operation, a);
  const detail::BroadcastPlan plan(operation, a.shape(), b.shape());
  Tensor y = Tensor::uninitialized(plan.shape, a.dtype(), operation);
  visit_elements(
      operation, std::tie(a, b, y), [&](const auto* from_a, const auto* from_b, auto* to) {
        if (plan.outer == 1) {
          return parallel_ranges(plan.inner, detail::elementwise_tile, [&](Index begin, Index end) {
            detail::zip_run(from_a + begin * plan.step_a, plan.step_a, from_b + begin * plan.step_b,
                            plan.step_b, to + begin, end - begin, f);
          });
        }
        parallel_each(plan.outer, detail::runs_of_tile(plan.inner), [&](Index run) {
          const auto [offset_a, offset_b] = plan.offsets(run);
          detail::zip_run(from_a + offset_a, plan.step_a, from_b + offset_b, plan.step_b,
                          to + run * plan.inner, plan.inner, f);
        });
      });
  return y;
}

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
inline Tensor operator-(const Tensor& a, double b) { return a + -b; }
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
inline Tensor operator+(double a, const Tensor& b) { return b + a; }
Tensor operator-(double a, const Tensor& b);
inline Tensor operator*(double a, const Tensor& b) { return b * a; }
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& x);

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
/// σ(x) = 1 / (1 + e⁻ˣ)
Tensor sigmoid(const Tensor& x);
/// log(1 + eˣ), without overflow
Tensor softplus(const Tensor& x);
/// x σ(2u), u = √(2/π) (x + 0.044715 x³), the tanh form of the GELU (Hendrycks and Gimpel, 2016,
/// section 2); and dx of it.
Tensor gelu(const Tensor& x);
Tensor gelu_backward(const Tensor& x, const Tensor& dy);
/// |x|
Tensor abs(const Tensor& x);
/// xᵖ, as std::pow: NaN where x < 0 and p is not whole.
Tensor power(const Tensor& x, double p);
/// The larger of two; NaN where either is.
Tensor maximum(const Tensor& a, const Tensor& b);
/// The smaller of two; NaN where either is.
Tensor minimum(const Tensor& a, const Tensor& b);

/// x repeated over the axes that `shape` adds to it, or that have extent 1 in x; x itself where it
/// has that shape. Throws where it does not broadcast to it.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// a where the mask is 1, b where it is 0, with all three broadcast; what stands in the other one
/// does not matter, NaN included. The mask may have any dtype; a and b have the same.
Tensor where(const Mask& mask, const Tensor& a, const Tensor& b);
inline Tensor where(const Mask& mask, const Tensor& a, double b) {
  return where(mask, a, scalar(b, a.dtype()));
}

/// Comparisons, also of i32: a mask of a's dtype, 1 where they hold and 0 elsewhere, NaN included.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);

/// a += b and a *= s, without a new tensor; b has the shape of a's last axes, and its dtype.
void add_in_place(Tensor& a, const Tensor& b);
void scale_in_place(Tensor& a, double s);

}  // namespace attune
