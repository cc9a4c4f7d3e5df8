#include <cmath>
#include <functional>

#include <fmt/format.h>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune {

namespace detail {
namespace {

/// Strides of x's axes in the broadcast shape: 0 where x has extent 1 or no axis.
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

BroadcastPlan::BroadcastPlan(const char* operation, const Shape& a, const Shape& b)
    : shape(broadcast(operation, a, b)),
      strides_a_(broadcast_strides(a, shape)),
      strides_b_(broadcast_strides(b, shape)) {
  // The innermost axes join one run as long as both operands go on as they began.
  bool begun = false;
  outer_axes_ = shape.rank();
  for (; outer_axes_ > 0; --outer_axes_) {
    const auto axis = static_cast<std::size_t>(outer_axes_ - 1);
    if (shape[outer_axes_ - 1] == 1) continue;
    const Index step_of_a = strides_a_[axis] != 0, step_of_b = strides_b_[axis] != 0;
    if (begun && (step_of_a != step_a || step_of_b != step_b)) break;
    step_a = step_of_a, step_b = step_of_b, begun = true;
    inner *= shape[outer_axes_ - 1];
  }
  outer = shape.product(0, outer_axes_);
}

std::pair<Index, Index> BroadcastPlan::offsets(Index run) const {
  Index offset_a = 0, offset_b = 0;
  for (int axis = outer_axes_ - 1; axis >= 0; --axis) {
    const Index at = run % shape[axis];
    run /= shape[axis];
    offset_a += at * strides_a_[axis];
    offset_b += at * strides_b_[axis];
  }
  return {offset_a, offset_b};
}

AxisView::AxisView(const char* operation, const Tensor& x, int axis) {
  if (!x.defined() || !is_floating(x.dtype())) fail_not_floating(operation, x);
  axis = x.shape().axis(axis, operation);
  outer = x.shape().product(0, axis);
  n = x.dim(axis);
  inner = x.shape().product(axis + 1, x.rank());
}

Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask) {
  if (!mask.defined()) return mask;
  const Tensor y = mask.to(x.dtype());
  if (x.shape().ends_with(mask.shape())) return y;
  bool fits = mask.rank() <= x.rank();
  for (int axis = -1; fits && axis >= -mask.rank(); --axis)
    fits = mask.dim(axis) == x.dim(axis) || mask.dim(axis) == 1;
  if (!fits) {
    fail(operation, fmt::format("the mask {} does not broadcast to x {}", to_string(mask.shape()),
                                to_string(x.shape())));
  }
  return broadcast_to(y, x.shape());
}

}  // namespace detail

Tensor operator+(const Tensor& a, const Tensor& b) { return zip("add", a, b, std::plus()); }
Tensor operator-(const Tensor& a, const Tensor& b) { return zip("subtract", a, b, std::minus()); }
Tensor operator*(const Tensor& a, const Tensor& b) {
  return zip("multiply", a, b, std::multiplies());
}
Tensor operator/(const Tensor& a, const Tensor& b) { return zip("divide", a, b, std::divides()); }

Tensor operator+(const Tensor& a, double b) {
  return map("add", a, [b](auto x) { return x + static_cast<decltype(x)>(b); });
}
Tensor operator*(const Tensor& a, double b) {
  return map("multiply", a, [b](auto x) { return x * static_cast<decltype(x)>(b); });
}
Tensor operator/(const Tensor& a, double b) {
  return map("divide", a, [b](auto x) { return x / static_cast<decltype(x)>(b); });
}
Tensor operator-(double a, const Tensor& b) {
  return map("subtract", b, [a](auto x) { return static_cast<decltype(x)>(a) - x; });
}
Tensor operator/(double a, const Tensor& b) {
  return map("divide", b, [a](auto x) { return static_cast<decltype(x)>(a) / x; });
}
Tensor operator-(const Tensor& x) { return map("negate", x, std::negate()); }

Tensor exp(const Tensor& x) {
  return detail::map_runs("exp", x, [](auto* from, auto* to, Index n) { simd::exp(from, to, n); });
}
Tensor gelu(const Tensor& x) {
  return detail::map_runs("gelu", x,
                          [](auto* from, auto* to, Index n) { simd::gelu(from, to, n); });
}
Tensor gelu_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx = Tensor::uninitialized(x.shape(), x.dtype());
  visit_elements("gelu", std::tie(x, dy, dx), [&](const auto* of, const auto* from, auto* to) {
    parallel_ranges(x.size(), detail::elementwise_tile, [&](Index begin, Index end) {
      simd::gelu_backward(of + begin, from + begin, to + begin, end - begin);
    });
  });
  return dx;
}
Tensor tanh(const Tensor& x) {
  return detail::map_runs("tanh", x,
                          [](auto* from, auto* to, Index n) { simd::tanh(from, to, n); });
}
Tensor sigmoid(const Tensor& x) {
  return detail::map_runs("sigmoid", x,
                          [](auto* from, auto* to, Index n) { simd::sigmoid(from, to, n); });
}
Tensor log(const Tensor& x) {
  return map("log", x, [](auto v) { return std::log(v); });
}
Tensor sqrt(const Tensor& x) {
  return map("sqrt", x, [](auto v) { return std::sqrt(v); });
}
Tensor softplus(const Tensor& x) {
  return map("softplus", x, [](auto v) {
    const double e = std::exp(-std::abs(v));  // log1p of double: that of float differs by CPU
    return std::max(v, decltype(v)(0)) + static_cast<decltype(v)>(std::log1p(e));
  });
}
Tensor maximum(const Tensor& a, const Tensor& b) {
  return zip("maximum", a, b, [](auto x, auto y) { return x > y || x != x ? x : y; });
}

Tensor abs(const Tensor& x) {
  return map("abs", x, [](auto v) { return std::abs(v); });
}
Tensor power(const Tensor& x, double p) {
  return map("power", x, [p](auto v) { return std::pow(v, static_cast<decltype(v)>(p)); });
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return zip("minimum", a, b, [](auto x, auto y) { return x < y || x != x ? x : y; });
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const detail::BroadcastPlan plan("broadcast_to", x.shape(), shape);
  if (plan.shape != shape) {
    fail("broadcast_to",
         fmt::format("{} does not broadcast to {}", to_string(x.shape()), to_string(shape)));
  }
  Tensor y = Tensor::uninitialized(shape, x.dtype(), "broadcast_to");
  visit_elements("broadcast_to", std::tie(x, y), [&](const auto* from, auto* to) {
    const Index runs = plan.inner == 0 ? 0 : plan.outer;
    parallel_each(runs, detail::runs_of_tile(plan.inner), [&](Index run) {
      const auto* source = from + plan.offsets(run).first;
      auto* target = to + run * plan.inner;
      plan.step_a == 1 ? std::copy_n(source, plan.inner, target)
                       : std::fill_n(target, plan.inner, *source);
    });
  });
  return y;
}

Tensor where(const Mask& mask, const Tensor& a, const Tensor& b) {
  require_same_dtype("where", a, b);
  const Shape shape = broadcast("where", mask.shape(), broadcast("where", a.shape(), b.shape()));
  const Tensor chosen = broadcast_to(mask.to(a.dtype()), shape), all_a = broadcast_to(a, shape),
               all_b = broadcast_to(b, shape);
  Tensor y = Tensor::uninitialized(shape, a.dtype(), "where");
  const auto choose = [&](const auto* m, const auto* x, const auto* z, auto* to) {
    parallel_each(y.size(), detail::elementwise_tile,
                  [=](Index i) { to[i] = m[i] != 0 ? x[i] : z[i]; });
  };
  visit_elements("where", std::tie(chosen, all_a, all_b, y), choose);
  return y;
}

namespace {

/// 1 where f(a, b), else 0, of a's dtype. i32 are compared as f64, which holds each of them.
template <class F>
Tensor compare(const char* operation, const Tensor& a, const Tensor& b, F f) {
  require_same_dtype(operation, a, b);
  if (a.dtype() == DType::i32)
    return compare(operation, a.to(DType::f64), b.to(DType::f64), f).to(DType::i32);
  return zip(operation, a, b, [f](auto x, auto y) { return f(x, y) ? decltype(x)(1) : 0; });
}

template <class F>
Tensor compare(const char* operation, const Tensor& a, double b, F f) {
  if (a.dtype() == DType::i32) return compare(operation, a.to(DType::f64), b, f).to(DType::i32);
  return compare(operation, a, scalar(b, a.dtype()), f);
}

}  // namespace

#define ATTUNE_COMPARE(name, F)                                                       \
  Tensor name(const Tensor& a, const Tensor& b) { return compare(#name, a, b, F()); } \
  Tensor name(const Tensor& a, double b) { return compare(#name, a, b, F()); }
ATTUNE_COMPARE(equal, std::equal_to)
ATTUNE_COMPARE(less, std::less)
ATTUNE_COMPARE(less_equal, std::less_equal)
ATTUNE_COMPARE(greater, std::greater)
ATTUNE_COMPARE(greater_equal, std::greater_equal)

void add_in_place(Tensor& a, const Tensor& b) {
  require_same_dtype("add_in_place", a, b);
  if (!a.shape().ends_with(b.shape())) {
    fail("add_in_place",
         fmt::format("shapes do not fit: {} += {}", to_string(a.shape()), to_string(b.shape())));
  }
  are_same_or_apart("add_in_place", b, a);
  if (a.size() == 0) return;
  visit_elements("add_in_place", std::tie(b, a), [&, n = b.size()]<class T>(const T* from, T* to) {
    parallel_ranges(a.size(), detail::elementwise_tile, [&](Index begin, Index end) {
      while (begin < end) {  // up to where b begins again
        const Index at = begin % n, count = std::min(end - begin, n - at);
        simd::add_scaled<T>(1, from + at, to + begin, count);
        begin += count;
      }
    });
  });
}

void scale_in_place(Tensor& a, double s) {
  visit_elements("scale_in_place", std::tie(a), [&]<class T>(T* to) {
    parallel_ranges(a.size(), detail::elementwise_tile, [&](Index begin, Index end) {
      simd::scale(static_cast<T>(s), to + begin, end - begin);
    });
  });
}

}  // namespace attune
