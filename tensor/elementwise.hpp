// Functions of one element, or of two under broadcasting.
#pragma once

#include <attune/tensor/tensor.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {

namespace detail {

/// How two shapes broadcast: runs of `inner` elements, in which each operand either advances (step
/// 1) or stays (step 0).
struct BroadcastPlan {
  Shape shape;
  Index inner = 1;
  Index step_a = 1, step_b = 1;

  BroadcastPlan(const char* operation, const Shape& a, const Shape& b);
  /// Where a and b are at an element of the result.
  std::pair<Index, Index> offsets(Index element) const;

  /// body(a, b, at, n) for each run, or part of one, of the elements [begin, end): its first element
  /// in a, in b and in the result, and its length.
  template <class Body>
  void for_runs(Index begin, Index end, const Body& body) const {
    for (Index n; begin < end; begin += n) {
      n = std::min(end - begin, inner - begin % inner);
      const auto [a, b] = offsets(begin);
      body(a, b, begin, n);
    }
  }

 private:
  int outer_axes_ = 0;
  std::array<Index, Shape::max_rank> strides_a_{}, strides_b_{};
};

/// One run: the steps are constants in each branch, so that each loop vectorises, as long as it is
/// not mixed with the caller's.
template <class T, class F>
[[gnu::noinline]] void zip_run(const T* a, Index step_a, const T* b, Index step_b, T* y, Index n,
                               const F& f) {
  const T first_a = *a, first_b = *b;
  if (step_a == 1 && step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (step_a == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(a[i], first_b);
  } else if (step_b == 1) {
    for (Index i = 0; i < n; ++i) y[i] = f(first_a, b[i]);
  } else {
    std::fill_n(y, n, f(first_a, first_b));
  }
}

}  // namespace detail

/// y = f(x), element by element; f takes and returns the element type (write it with `auto`). The
/// operation is named in errors.
template <class F>
Tensor map(const char* operation, const Tensor& x, F f) {
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), operation);
  parallel_rows(operation, std::tie(x, y), x.size(), elementwise_tile,
                [&](Index i, const auto* from, auto* to) { to[i] = f(from[i]); });
  return y;
}
template <class F>
Tensor map(const Tensor& x, F f) {
  return map("map", x, f);
}

/// y = f(a, b), element by element under NumPy's broadcasting; dtypes must agree.
template <class F>
Tensor zip(const char* operation, const Tensor& a, const Tensor& b, F f) {
  require_same_dtype(operation, a, b);
  require_floating(operation, a);
  const detail::BroadcastPlan plan(operation, a.shape(), b.shape());
  Tensor y = Tensor::uninitialized(plan.shape, a.dtype(), operation);
  const auto compute = [&]<class T>(Index begin, Index end, const T* from_a, const T* from_b,
                                    T* to) {
    plan.for_runs(begin, end, [&](Index at_a, Index at_b, Index at, Index n) {
      detail::zip_run(from_a + at_a, plan.step_a, from_b + at_b, plan.step_b, to + at, n, f);
    });
  };
  parallel_rows(operation, std::tie(a, b, y), y.size(), elementwise_tile, compute);
  return y;
}

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
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
