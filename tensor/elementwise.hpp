// Elementwise functions of one input, or of two with broadcasting.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

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

/// How two shapes broadcast: the result consists of runs of consecutive elements. Within a run an
/// operand advances by one per element (step 1) or repeats one element (step 0). If such runs are
/// short, a run covers further axes, and tables hold the offsets of its elements in the operands.
class BroadcastPlan {
 public:
  BroadcastPlan(const char* operation, const Shape& a, const Shape& b);
  const Shape& shape() const& { return shape_; }

  /// y = f(a, b) for the elements [begin, end) of the result.
  template <class T, class F>
  void apply(Index begin, Index end, const T* a, const T* b, T* y, const F& f) const;

 private:
  static constexpr Index short_run = 32, longest_table = 1024;
  void make_tables();
  /// Offsets in a and in b of the first element of a run.
  std::pair<Index, Index> offsets(Index element) const;

  Shape shape_;
  Index step_a_ = 1, step_b_ = 1;
  int outer_axes_ = 0;  // number of axes that precede those that are within each run
  Index inner_ = 1;     // elements of these inner axes
  Index run_ = 1;       // elements of a run: `inner_`, or some rows of the axis before
  Index period_ = 1;    // runs begin anew after so many elements: the last may be shorter
  std::array<Index, Shape::max_rank> strides_a_{}, strides_b_{};
  std::vector<std::int32_t> table_a_, table_b_;
};

/// One run of a BroadcastPlan with steps. These are constants in each branch, so that the loops
/// vectorise. Not inlined: the compiler does not vectorise them inside of the caller's loop.
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

template <class T, class F>
void BroadcastPlan::apply(Index begin, Index end, const T* a, const T* b, T* y, const F& f) const {
  for (Index n; begin < end; begin += n) {
    const Index of_period = begin % period_, from = of_period % run_;
    n = (std::min)({end - begin, run_ - from, period_ - of_period});
    const auto [at_a, at_b] = offsets(begin - from);
    if (table_a_.empty()) {
      zip_run(a + at_a + from * step_a_, step_a_, b + at_b + from * step_b_, step_b_, y + begin, n,
              f);
      continue;
    }
    const std::int32_t *in_a = table_a_.data() + from, *in_b = table_b_.data() + from;
    for (Index i = 0; i < n; ++i) y[begin + i] = f(a[at_a + in_a[i]], b[at_b + in_b[i]]);
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
  Tensor y = Tensor::uninitialized(plan.shape(), a.dtype(), operation);
  const auto compute = [&](Index begin, Index end, const auto* from_a, const auto* from_b,
                           auto* to) { plan.apply(begin, end, from_a, from_b, to, f); };
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
  inline Tensor operator op(const Tensor& a, double b) { return name(a, b); }        \
  Tensor operator op(double a, const Tensor& b);
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
X maximum(double least, const A& x) {
  return maximum(x, least);
}
template <class A, Value X = ValueOf<A>>
X minimum(const A& x, double most) {
  return minimum(X(x), X(scalar(most, x.dtype())));
}
template <class A, Value X = ValueOf<A>>
X minimum(double most, const A& x) {
  return minimum(x, most);
}
template <class A, Value X = ValueOf<A>>
X power(double a, const A& b) {
  return power(X(scalar(a, b.dtype())), X(b));
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
