// Elementwise functions of one input, or of two with broadcasting.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <attune/tensor/loops.hpp>

namespace attune {

namespace simd {
enum class Function;
}

namespace detail {

/// a if `first`, else b. Bit operations instead of a branch, so that loops vectorise.
template <class T>
T select(bool first, T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Bits of_a = -Bits(first);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & of_a) | (std::bit_cast<Bits>(b) & ~of_a));
}

/// How two shapes broadcast: the result consists of runs of `inner` consecutive elements. Within a
/// run an operand advances by one per element (step 1) or repeats one element (step 0).
struct BroadcastPlan {
  Shape shape;
  Index inner = 1;
  Index step_a = 1, step_b = 1;

  BroadcastPlan(const char* operation, const Shape& a, const Shape& b);
  /// Offsets in a and in b of an element of the result.
  std::pair<Index, Index> offsets(Index element) const;

  /// Splits the elements [begin, end) of the result into runs. Calls body(a, b, at, n) for each:
  /// the offsets of its first element in a, in b and in the result, and its length.
  template <class Body>
  void for_runs(Index begin, Index end, const Body& body) const {
    for (Index n; begin < end; begin += n) {
      n = std::min<Index>(end - begin, inner - begin % inner);
      const auto [a, b] = offsets(begin);
      body(a, b, begin, n);
    }
  }

 private:
  int outer_axes_ = 0;
  std::array<Index, Shape::max_rank> strides_a_{}, strides_b_{};
};

/// One run of a BroadcastPlan. The steps are constants in each branch, so that the loops vectorise.
/// Not inlined: the compiler does not vectorise them inside of the caller's loop.
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

/// y = f(x), element by element. f takes and returns the element type (write it with `auto`). i32
/// is passed as double; throws if f then returns no i32 value. Errors begin with `operation`.
template <class F>
Tensor map(const char* operation, const Tensor& x, F f) {
  if (x.dtype() == DType::i32) return to_i32(operation, map(operation, x.to(DType::f64), f));
  Tensor y = Tensor::uninitialized(x.shape(), x.dtype(), operation);
  parallel_rows(operation, std::tie(x, y), x.size(), elementwise_tile,
                [&](Index i, const auto* from, auto* to) { to[i] = f(from[i]); });
  return y;
}
template <class F>
Tensor map(const Tensor& x, F f) {
  return map("map", x, f);
}

/// y = f(a, b), element by element with NumPy's broadcasting; i32 as in `map`. Throws if shapes or
/// dtypes do not match.
template <class F>
Tensor zip(const char* operation, const Tensor& a, const Tensor& b, F f) {
  require_same_dtype(operation, a, b);
  if (a.dtype() == DType::i32)
    return to_i32(operation, zip(operation, a.to(DType::f64), b.to(DType::f64), f));
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

// + - * / and == != < <= > >=, see operators.inc. Comparisons also have names: equal(a, b). A
// quotient of i32 is rounded down, as Python's a // b.
#define ATTUNE_OPERATOR(op, name)                       \
  Tensor operator op(const Tensor& a, const Tensor& b); \
  Tensor operator op(const Tensor& a, double b);        \
  Tensor operator op(double a, const Tensor& b);
#define ATTUNE_COMPARISON(name, op)                                                  \
  Tensor name(const Tensor& a, const Tensor& b);                                     \
  Tensor name(const Tensor& a, double b);                                            \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator op(const Tensor& a, double b) { return name(a, b); }
#include <attune/tensor/operators.inc>
Tensor operator-(const Tensor& x);
/// The remainder a - ⌊a/b⌋ b, which has the sign of b, as in Python. i32: throws if b is 0.
Tensor operator%(const Tensor& a, const Tensor& b);
inline Tensor operator%(const Tensor& a, double b) { return a % scalar(b, a.dtype()); }

// exp, tanh, log and the other functions of one input: see functions.inc.
#define ATTUNE_FUNCTION(name, kept, value, gradient) Tensor name(const Tensor& x);
#include <attune/tensor/functions.inc>
namespace detail {
/// dx of a function for the element that it keeps, and of power.
Tensor function_gradient(const char* operation, simd::Function f, const Tensor& dy,
                         const Tensor& kept);
Tensor power_gradient(const Tensor& dy, const Tensor& a, double b);
}  // namespace detail

/// aᵇ as std::pow computes it: NaN if a < 0 and b is not an integer.
Tensor power(const Tensor& a, const Tensor& b);
Tensor power(const Tensor& a, double b);
/// Elementwise maximum; NaN if either operand is NaN.
Tensor maximum(const Tensor& a, const Tensor& b);
/// Elementwise minimum; NaN if either operand is NaN.
Tensor minimum(const Tensor& a, const Tensor& b);

/// x repeated along the axes that `shape` adds, and along axes of extent 1 in x. Returns x itself
/// if it has that shape already. Throws if x does not broadcast to `shape`.
Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// a where the mask is 1, b where it is 0; all three broadcast. The operand that is not selected
/// has no effect, even if NaN. The mask has any dtype; undefined means 1. Throws unless a and b have
/// the same dtype.
Tensor where(const Mask& mask, const Tensor& a, const Tensor& b);

// The same with numbers as operands, and functions composed of the above. X is Tensor or Var.
inline Tensor where(const Mask& mask, double a, double b, DType dtype = DType::f32) {
  return where(mask, scalar(a, dtype), scalar(b, dtype));
}
template <class A, Value X = ValueOf<A>>
X where(const Mask& mask, const A& a, double b) {
  return where(mask, X(a), X(scalar(b, a.dtype())));
}
template <class A, Value X = ValueOf<A>>
X where(const Mask& mask, double a, const A& b) {
  return where(mask, X(scalar(a, b.dtype())), X(b));
}
template <class A, Value X = ValueOf<A>>
X maximum(const A& x, double least) {
  return maximum(X(x), X(scalar(least, x.dtype())));
}
template <class A, Value X = ValueOf<A>>
X minimum(const A& x, double most) {
  return minimum(X(x), X(scalar(most, x.dtype())));
}
/// min(max(x, low), high). The gradient is 1 where low <= x <= high, and 0 elsewhere.
template <class A, Value X = ValueOf<A>>
X clamp(const A& x, double low, double high) {
  return minimum(maximum(x, low), high);
}
/// x where x > 0, slope · x elsewhere: the leaky ReLU (Maas, Hannun and Ng, 2013).
template <class A, Value X = ValueOf<A>>
X leaky_relu(const A& x, double slope = 0.01) {
  return where(x > 0, x, slope * x);
}

/// 1 where x is neither NaN nor infinite, else 0.
Tensor isfinite(const Tensor& x);
Tensor isnan(const Tensor& x);

/// a += b in place; b has the shape of a's last axes, and a's dtype. a *= s in place.
void add_in_place(Tensor& a, const Tensor& b);
void scale_in_place(Tensor& a, double s);

}  // namespace attune
