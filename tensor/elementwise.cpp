#include <cmath>
#include <functional>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>

namespace attune {

namespace detail {
namespace {

/// Strides of x's axes in the broadcast shape: 0 if x has extent 1 or lacks the axis.
std::array<Index, Shape::max_rank> broadcast_strides(const Shape& x, const Shape& shape) {
  std::array<Index, Shape::max_rank> strides{};
  Index stride = 1;
  for (int i = 1; i <= x.rank(); ++i) {
    strides[shape.rank() - i] = x[-i] == 1 ? 0 : stride;
    stride *= x[-i];
  }
  return strides;
}

}  // namespace

BroadcastPlan::BroadcastPlan(const char* operation, const Shape& a, const Shape& b) : shape_(a) {
  if (a == b) {
    run_ = period_ = inner_ = std::max<Index>(1, a.size());
    return;
  }
  shape_ = broadcast(operation, a, b);
  strides_a_ = broadcast_strides(a, shape_);
  strides_b_ = broadcast_strides(b, shape_);
  // Inner axes are merged into one run as long as both operands keep their steps.
  bool begun = false;
  outer_axes_ = shape_.rank();
  for (; outer_axes_ > 0; --outer_axes_) {
    const auto axis = static_cast<std::size_t>(outer_axes_ - 1);
    if (shape_[outer_axes_ - 1] == 1) continue;
    const Index step_of_a = strides_a_[axis] != 0, step_of_b = strides_b_[axis] != 0;
    if (begun && (step_of_a != step_a_ || step_of_b != step_b_)) break;
    step_a_ = step_of_a, step_b_ = step_of_b, begun = true;
    inner_ *= shape_[outer_axes_ - 1];
  }
  run_ = period_ = inner_;
  if (inner_ < short_run && shape_.size() > longest_table) make_tables();
}

void BroadcastPlan::make_tables() {
  for (Index i = 0; i < inner_; ++i) {
    table_a_.push_back(static_cast<std::int32_t>(i * step_a_));
    table_b_.push_back(static_cast<std::int32_t>(i * step_b_));
  }
  const auto repeat = [](std::vector<std::int32_t>& table, Index times, Index stride) {
    const auto n = static_cast<Index>(table.size());
    for (Index i = n; i < n * times; ++i)
      table.push_back(table[i - n] + static_cast<std::int32_t>(stride));
  };
  while (outer_axes_ > 0) {
    const auto axis = static_cast<std::size_t>(outer_axes_ - 1);
    const Index extent = shape_[outer_axes_ - 1], rows = std::min(extent, longest_table / inner_);
    repeat(table_a_, rows, strides_a_[axis]);
    repeat(table_b_, rows, strides_b_[axis]);
    run_ = inner_ * rows;
    period_ = inner_ * extent;
    if (rows < extent) break;
    inner_ = period_;
    --outer_axes_;
  }
}

std::pair<Index, Index> BroadcastPlan::offsets(Index element) const {
  Index run = element / inner_, offset_a = 0, offset_b = 0;
  for (int axis = outer_axes_ - 1; axis >= 0; --axis) {
    const Index at = run % shape_[axis];
    run /= shape_[axis];
    offset_a += at * strides_a_[axis];
    offset_b += at * strides_b_[axis];
  }
  return {offset_a, offset_b};
}

}  // namespace detail

/// Quotients of i32 are rounded down.
static bool divides_i32(const char* op, const Tensor& a, const Tensor& b) {
  return *op == '/' && a.dtype() == DType::i32 && b.dtype() == DType::i32;
}

#define ATTUNE_OPERATOR(op, name)                                                                 \
  Tensor operator op(const Tensor& a, const Tensor& b) {                                          \
    if (divides_i32(#op, a, b)) return to_i32(name, floor(a.to(DType::f64) op b.to(DType::f64))); \
    return zip(name, a, b, [](auto x, auto y) { return x op y; });                                \
  }                                                                                               \
  Tensor operator op(const Tensor& a, double b) {                                                 \
    if (divides_i32(#op, a, a)) return to_i32(name, floor(a.to(DType::f64) op b));                \
    return map(name, a, [b](auto x) { return x op static_cast<decltype(x)>(b); });                \
  }                                                                                               \
  Tensor operator op(double a, const Tensor& b) {                                                 \
    if (divides_i32(#op, b, b)) return to_i32(name, floor(a op b.to(DType::f64)));                \
    return map(name, b, [a](auto x) { return static_cast<decltype(x)>(a) op x; });                \
  }
#define ATTUNE_COMPARISON(name, op)                                                              \
  Tensor name(const Tensor& a, const Tensor& b) {                                                \
    return zip(#name, a, b, [](auto x, auto y) { return decltype(x)(x op y); });                 \
  }                                                                                              \
  Tensor name(const Tensor& a, double b) {                                                       \
    return map(#name, a, [b](auto x) { return decltype(x)(x op static_cast<decltype(x)>(b)); }); \
  }                                                                                              \
  Tensor operator op(double a, const Tensor& b) {                                                \
    return map(#name, b, [a](auto x) { return decltype(x)(static_cast<decltype(x)>(a) op x); }); \
  }
#include <attune/tensor/operators.inc>
Tensor operator-(const Tensor& x) { return map("negate", x, std::negate()); }
Tensor operator%(const Tensor& a, const Tensor& b) {
  return zip("remainder", a, b, [](auto x, auto y) {
    const auto r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  });
}

/// y = f(x...) by the kernel compute(x..., y, n), which gets as many elements as y has.
template <class Compute, class... Xs>
static Tensor computed(const char* operation, const Compute& compute, const Xs&... x) {
  const Tensor& first = std::get<0>(std::tie(x...));
  Tensor y = Tensor::uninitialized(first.shape(), first.dtype(), operation);
  parallel_rows(
      operation, std::tie(x..., y), y.size(), elementwise_tile,
      [&](Index begin, Index end, auto*... data) { compute(data + begin..., end - begin); });
  return y;
}

static Tensor applied(const char* operation, simd::Function f, const Tensor& x) {
  require_floating(operation, x);
  return computed(
      operation, [f](auto... of) { simd::apply(f, of...); }, x);
}

#define ATTUNE_INTEGER_FUNCTION(name, kept, value, gradient)                   \
  Tensor name(const Tensor& x) {                                               \
    if (x.dtype() == DType::i32) return to_i32(#name, name(x.to(DType::f64))); \
    return applied(#name, simd::Function::name, x);                            \
  }
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  Tensor name(const Tensor& x) { return applied(#name, simd::Function::name, x); }
#include <attune/tensor/functions.inc>

Tensor detail::function_gradient(const char* operation, simd::Function f, const Tensor& dy,
                                 const Tensor& kept) {
  return computed(
      operation, [f](auto... of) { simd::apply_gradient(f, of...); }, dy, kept);
}
Tensor power(const Tensor& a, const Tensor& b) {
  require_same_dtype("power", a, b);
  if (a.dtype() == DType::i32) return to_i32("power", power(a.to(DType::f64), b.to(DType::f64)));
  const Shape shape = broadcast("power", a.shape(), b.shape());
  return computed(
      "power", [](auto... of) { simd::power(of...); }, broadcast_to(a, shape),
      broadcast_to(b, shape));
}
Tensor power(const Tensor& a, double b) {
  if (a.dtype() == DType::i32) return to_i32("power", power(a.to(DType::f64), b));
  return computed(
      "power", [b]<class T>(const T* x, T* y, Index n) { simd::power(x, static_cast<T>(b), y, n); },
      a);
}
Tensor detail::power_gradient(const Tensor& dy, const Tensor& a, double b) {
  return computed(
      "power",
      [b]<class T>(const T* d, const T* x, T* dx, Index n) {
        simd::power_gradient(d, x, static_cast<T>(b), dx, n);
      },
      dy, a);
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return zip("maximum", a, b, [](auto x, auto y) { return x > y || x != x ? x : y; });
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return zip("minimum", a, b, [](auto x, auto y) { return x < y || x != x ? x : y; });
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  if (x.dtype() == DType::i32) return broadcast_to(x.to(DType::f64), shape).to(DType::i32);
  const detail::BroadcastPlan plan("broadcast_to", x.shape(), shape);
  if (plan.shape() != shape) fail("broadcast_to", "{} does not broadcast to {}", x.shape(), shape);
  Tensor y = Tensor::uninitialized(shape, x.dtype(), "broadcast_to");
  const auto compute = [&]<class T>(Index begin, Index end, const T* from, T* to) {
    plan.apply<T>(begin, end, from, to, to, [](T value, const T&) { return value; });
  };
  parallel_rows("broadcast_to", std::tie(x, y), y.size(), elementwise_tile, compute);
  return y;
}

Tensor where(const Mask& mask, const Tensor& a, const Tensor& b) {
  if (!mask.defined()) return where(ones({}), a, b);
  require_same_dtype("where", a, b);
  if (a.dtype() == DType::i32)
    return where(mask, a.to(DType::f64), b.to(DType::f64)).to(DType::i32);
  const Shape shape = broadcast("where", mask.shape(), broadcast("where", a.shape(), b.shape()));
  const Tensor chosen = broadcast_to(mask.to(a.dtype()), shape), all_a = broadcast_to(a, shape),
               all_b = broadcast_to(b, shape);
  Tensor y = Tensor::uninitialized(shape, a.dtype(), "where");
  const auto compute = []<class T>(Index i, const T* m, const T* from_a, const T* from_b, T* to) {
    to[i] = detail::select(m[i] != 0, from_a[i], from_b[i]);
  };
  parallel_rows("where", std::tie(chosen, all_a, all_b, y), y.size(), elementwise_tile, compute);
  return y;
}

Tensor isfinite(const Tensor& x) {
  return map("isfinite", x, [](auto v) { return decltype(v)(std::isfinite(v)); });
}
Tensor isnan(const Tensor& x) {
  return map("isnan", x, [](auto v) { return decltype(v)(std::isnan(v)); });
}

void add_in_place(Tensor& a, const Tensor& b) {
  require_same_dtype("add_in_place", a, b);
  if (!a.shape().ends_with(b.shape()))
    fail("add_in_place", "shapes do not fit: {} += {}", a.shape(), b.shape());
  require_no_partial_overlap("add_in_place", b, a);
  const auto compute = [n = b.size()]<class T>(Index begin, Index end, const T* from, T* to) {
    while (begin < end) {  // up to the next repetition of b
      const Index at = begin % n, count = std::min(end - begin, n - at);
      simd::add_scaled<T>(1, from + at, to + begin, count);
      begin += count;
    }
  };
  parallel_rows("add_in_place", std::tie(b, a), a.size(), elementwise_tile, compute);
}

void scale_in_place(Tensor& a, double s) {
  const auto compute = [=]<class T>(Index begin, Index end, T* to) {
    simd::scale(static_cast<T>(s), to + begin, end - begin);
  };
  parallel_rows("scale_in_place", std::tie(a), a.size(), elementwise_tile, compute);
}

}  // namespace attune
