#include <cmath>
#include <functional>
#include <numbers>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/kernels/simd/functions.hpp>

namespace attune {

namespace {

/// dx, but 0 where dy is 0, even if dx is not finite: elements that `where` did not select have
/// gradient 0.
Var guarded(const Var& dy, const Var& dx) {
  if (std::isfinite(sum(dx.value()).item())) return dx;
  return where((dy.value() == 0) * (1 - isfinite(dx.value())), 0.0, dx);
}

/// slope(dy, kept) element by element, guarded.
template <class Slope>
Tensor sloped(const char* operation, const Tensor& dy, const Tensor& kept, Slope slope) {
  return zip(operation, dy, kept, [=]<class T>(T d, T v) {
    return detail::select(d != 0, static_cast<T>(slope(d, v)), T(0));
  });
}
template <class Slope>
Var sloped(const char*, const Var& dy, const Var& kept, Slope slope) {
  return guarded(dy, slope(dy, kept));
}
/// dx of a function of functions.inc: by its kernel for Tensors, slope(dy, kept) for Vars.
template <Value V, class Slope>
V function_gradient(const char* operation, simd::Function f, const V& dy, const V& kept,
                    Slope slope) {
  if constexpr (std::is_same_v<V, Tensor>)
    return detail::function_gradient(operation, f, dy, kept);
  else
    return guarded(dy, slope(dy, kept));
}

template <Value V>
V times(const V& dy, const V& factor) {
  return sloped("multiply", dy, factor, std::multiplies<>());
}
template <Value V>
V over(const V& dy, const V& divisor) {
  return sloped("divide", dy, divisor, std::divides<>());
}

/// dy where the mask is 1 (with `ones` false: where it is 0), else 0, also if dy is infinite.
Tensor selected(const char* operation, const Tensor& dy, const Tensor& mask, bool ones) {
  return zip(operation, dy, mask,
             [=]<class T>(T d, T m) { return detail::select((m != 0) == ones, d, T(0)); });
}
Var selected(const char*, const Var& dy, const Tensor& mask, bool ones) {
  return ones ? where(mask, dy, 0.0) : where(mask, 0.0, dy);
}

/// A product of dy and x in a gradient, in which elements of dy that are 0 give 0 even if x is not
/// finite. An element of x that is not finite makes a column of the product so, or a row if dy is the
/// right operand. So only the first row, or column, of each matrix is checked.
template <Value V, class Product>
V product_with(const V& dy, const V& x, bool dy_is_left, Transpose transpose, Index matrices,
               Product product) {
  const auto f = [&](const auto& d, const auto& factor) {
    return dy_is_left ? product(d, factor, transpose) : product(factor, d, transpose);
  };
  const V y = f(dy, x);
  const Tensor& value = detail::value_of(y);
  const Index n = y.rank() == 0 ? 1 : y.dim(-1), size = y.size() / std::max<Index>(1, matrices);
  bool finite = true;
  visit_elements("matmul", std::tie(value), [&](const auto* from) {
    for (Index first = 0; first < y.size() && finite; first += size)
      for (Index i = 0; i < (dy_is_left ? n : size); i += dy_is_left ? 1 : n)
        finite &= std::isfinite(from[first + i]);
  });
  if (finite) return y;
  const Tensor lost = 1 - isfinite(detail::value_of(x));
  const Tensor stays = f(Tensor(detail::value_of(dy) != 0), lost);
  return where(stays != 0, y, f(dy, V(where(lost, 0.0, x))));
}

Var max_backward(const Var& dy, const Tensor& indices, const Shape& shape, Integer axis) {
  return where(max_backward(ones(dy.shape(), dy.dtype()), indices, shape, axis),
               broadcast_to(dy, shape), 0.0);
}

/// The maximum, recorded as `operation`.
Var largest(OperationName operation, const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes(operation, x, axes, keep, [operation](const Var& of, int axis) -> Var {
    const auto [values, indices] = max_forward(of.value(), axis, operation);
    return record(operation, values)
        .wrt(of, [indices = indices, shape = of.shape(), axis](const auto& dy) {
          return max_backward(dy, indices, shape, axis);
        });
  });
}

Var sum_to(const Var& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  return record("sum_to", sum_to(x.value(), shape)).wrt(x, [from = x.shape()](const auto& dy) {
    return broadcast_to(dy, from);
  });
}

/// dx += dy, summed along the axes along which x was broadcast.
template <class V>
void add_sum(SlotOf<V>& dx, const V& dy) {
  dx.add(sum_to(dy, dx.shape()));
}

/// y is a where chosen() is 1, else b. The selected operand gets the gradient.
template <class Chosen>
Var either(OperationName operation, const Tensor& y, const Var& a, const Var& b, Chosen chosen) {
  const auto share = [=](bool of_a) {
    return [=]<class V>(const V& dy, SlotOf<V>& dx) {
      add_sum(dx, selected(operation, dy, chosen(), of_a));
    };
  };
  return record(operation, y).wrt(a, share(true)).wrt(b, share(false));
}

/// dy of a reduction over `axes`, broadcast along the reduced axes.
template <Value V>
V spread(const V& dy, const Shape& shape, const Axes& axes) {
  if (axes.empty()) return broadcast_to(reshape(dy, Shape()), shape);
  Shape kept = shape;
  for (int axis : axes) kept = kept.with(axis, 1);
  return broadcast_to(reshape(dy, kept), shape);
}

std::vector<Tensor> values_of(std::span<const Var> vars) {
  std::vector<Tensor> values;
  for (const Var& var : vars) values.push_back(var.value());
  return values;
}

}  // namespace

// Arithmetic

Var operator+(const Var& a, const Var& b) {
  return record("add", a.value() + b.value())
      .wrt(a, []<class V>(const V& dy, SlotOf<V>& da) { add_sum(da, dy); })
      .wrt(b, []<class V>(const V& dy, SlotOf<V>& db) { add_sum(db, dy); });
}

Var operator-(const Var& a, const Var& b) {
  return record("subtract", a.value() - b.value())
      .wrt(a, []<class V>(const V& dy, SlotOf<V>& da) { add_sum(da, dy); })
      .wrt(b, []<class V>(const V& dy, SlotOf<V>& db) { db.add(-sum_to(dy, db.shape())); });
}

Var operator*(const Var& a, const Var& b) {
  return record("multiply", a.value() * b.value())
      .wrt(a, [b]<class V>(const V& dy, SlotOf<V>& da) { add_sum(da, times(dy, captured<V>(b))); })
      .wrt(b, [a]<class V>(const V& dy, SlotOf<V>& db) { add_sum(db, times(dy, captured<V>(a))); });
}

Var operator/(const Var& a, const Var& b) {
  return record("divide", a.value() / b.value())
      .wrt(a, [b]<class V>(const V& dy, SlotOf<V>& da) { add_sum(da, over(dy, captured<V>(b))); })
      .wrt(b, [b]<class V>(const V& dy, const V& y) {
        return sum_to(over(V(-times(dy, y)), captured<V>(b)), b.shape());
      });
}

Var operator+(const Var& a, double b) {
  return record("add", a.value() + b).wrt(a, [](const auto& dy) { return dy; });
}
Var operator-(const Var& a, double b) { return a + -b; }
Var operator*(const Var& a, double b) {
  return record("multiply", a.value() * b).wrt(a, [b]<class V>(const V& dy) -> V {
    return std::isfinite(static_cast<float>(b)) ? dy * b : times(dy, V(scalar(b, dy.dtype())));
  });
}
Var operator/(const Var& a, double b) {
  return record("divide", a.value() / b).wrt(a, [b]<class V>(const V& dy) -> V {
    return static_cast<float>(b) != 0 ? dy / b : over(dy, V(scalar(b, dy.dtype())));
  });
}
Var operator+(double a, const Var& b) { return b + a; }
Var operator-(double a, const Var& b) {
  return record("subtract", a - b.value()).wrt(b, [](const auto& dy) { return -dy; });
}
Var operator*(double a, const Var& b) { return b * a; }
Var operator/(double a, const Var& b) {
  return record("divide", a / b.value()).wrt(b, [b]<class V>(const V& dy, const V& y) {
    return over(V(-times(dy, y)), captured<V>(b));
  });
}
Var operator-(const Var& x) {
  return record("negate", -x.value()).wrt(x, [](const auto& dy) { return -dy; });
}

// Functions of one element

namespace {

// What the gradients in functions.inc use, for Vars.
template <class A, class B>
Var select(const Tensor& condition, const A& a, const B& b) {
  return where(condition, a, b);
}
Var zero(const Var& x) { return zeros(x.shape(), x.dtype()); }
/// d/dx x σ(g(x)) = s (1 + c (1 - s)),  s = σ(g),  c = x g'(x)
Var gated_slope(const Var& s, const Var& c) { return s * (1 + c * (1 - s)); }
Var silu_slope(const Var& x) { return gated_slope(sigmoid(x), clamp(x, -1000, 1000)); }
Var gelu_slope(const Var& of) {
  const Var x = clamp(of, -100, 100), square = x * x;
  constexpr double a = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return gated_slope(sigmoid(a * x * (1 + 0.044715 * square)), a * x * (1 + 3 * 0.044715 * square));
}
Var gauss(const Var& x) { return exp(-square(x)); }

/// An operation whose pullback keeps x, or y.
template <class Slope>
Var keeps_x(OperationName operation, simd::Function f, const Var& x, const Tensor& y, Slope slope) {
  return record(operation, y).wrt(x, [=]<class V>(const V& dy) {
    return function_gradient(operation, f, dy, captured<V>(x), slope);
  });
}
template <class Slope>
Var keeps_y(OperationName operation, simd::Function f, const Var& x, const Tensor& y, Slope slope) {
  return record(operation, y).wrt(x, [=]<class V>(const V& dy, const V& of) {
    return function_gradient(operation, f, dy, of, slope);
  });
}

}  // namespace

#define ATTUNE_WIDE(expression) (expression)
#define ATTUNE_FUNCTION(name, kept, formula, gradient)                                   \
  Var name(const Var& input) {                                                           \
    const auto slope = []([[maybe_unused]] const Var& dy,                                \
                          [[maybe_unused]] const Var& kept) -> Var { return gradient; }; \
    return keeps_##kept(#name, simd::Function::name, input, name(input.value()), slope); \
  }
#include <attune/tensor/functions.inc>

Var power(const Var& a, const Var& b) {
  return record("power", power(a.value(), b.value()))
      .wrt(a,
           [a, b]<class V>(const V& dy) {
             const V &x = captured<V>(a), &p = captured<V>(b);
             const V slope = power(x, p - 1);  // a⁰ is 1 also where this is not finite
             const auto zero = (p == 0) * (isfinite(detail::value_of(slope)) == 0);
             return sum_to(times(dy, V(where(zero, 0.0, p * slope))), a.shape());
           })
      .wrt(b, [a, shape = b.shape()]<class V>(const V& dy, const V& y) {
        const V& x = captured<V>(a);  // 0 at x = 0 for b >= 0: the limit from b > 0
        const Tensor zero = (y == 0) + (x == 0) * (y == 1);
        return sum_to(times(dy, V(where(zero != 0, 0.0, y * log(x)))), shape);
      });
}

Var power(const Var& a, double b) {
  return record("power", power(a.value(), b)).wrt(a, [b, a]<class V>(const V& dy) -> V {
    if constexpr (std::is_same_v<V, Tensor>) {
      return detail::power_gradient(dy, captured<V>(a), b);
    } else {
      if (b == 0) return zeros(a.shape(), a.dtype());  // at a = 0 too
      return times(dy, power(a, b - 1) * b);
    }
  });
}

Var maximum(const Var& a, const Var& b) {
  return either("maximum", maximum(a.value(), b.value()), a, b, [a = a.value(), b = b.value()] {
    return zip("maximum", a, b, [](auto u, auto v) { return (u >= v) | (u != u); });
  });
}

Var minimum(const Var& a, const Var& b) {
  return either("minimum", minimum(a.value(), b.value()), a, b, [a = a.value(), b = b.value()] {
    return zip("minimum", a, b, [](auto u, auto v) { return (u <= v) | (u != u); });
  });
}

Var where(const Mask& mask, const Var& a, const Var& b) {
  if (!mask.defined()) return where(ones({}), a, b);
  const Tensor y = where(mask, a.value(), b.value());
  return either("where", y, a, b, [chosen = mask.to(a.dtype())] { return chosen; });
}

// Products and sums

namespace {

/// The transposes of the products dA = dC·Bᵀ and dB = Aᵀ·dC, or of the transposed products
/// dAᵀ = B·dCᵀ and dBᵀ = dCᵀ·A.
Transpose of_left(Transpose t) { return t.a ? Transpose{t.b, true} : Transpose{false, !t.b}; }
Transpose of_right(Transpose t) { return t.b ? Transpose{true, t.a} : Transpose{!t.a, false}; }
constexpr auto one_product = [](const auto&... x) { return matmul(x...); };
constexpr auto products = [](const auto&... x) { return batched_matmul(x...); };

}  // namespace

Var add_matmul(const Var& y, const Var& a, const Var& b, Transpose transpose) {
  Recording sum = record(y.defined() ? OperationName("add_matmul") : OperationName("matmul"),
                         add_matmul(y.value(), a.value(), b.value(), transpose));
  sum.wrt(y, [shape = y.shape()](const auto& dc) { return sum_to(dc, shape); });
  // C = A·B:  dA = dC·Bᵀ, transposed if A is.
  sum.wrt(a, [b, transpose]<class V>(const V& dc) {
    return product_with(dc, captured<V>(b), !transpose.a, of_left(transpose), 1, one_product);
  });
  // dB = Aᵀ·dC, deferred until all uses of B are known.
  sum.wrt(b, [a, transpose]<class V>(const V& dc, SlotOf<V>& db) {
    const V& x = captured<V>(a);
    if (transpose.a) {
      db.add(product_with(dc, x, transpose.b, of_right(transpose), 1, one_product));
    } else {
      transpose.b ? db.add_product(dc, x) : db.add_product(x, dc);
    }
  });
  return sum;
}

Var matmul(const Var& a, const Var& b, Transpose transpose) {
  return add_matmul({}, a, b, transpose);
}

Var batched_matmul(const Var& a, const Var& b, Transpose transpose) {
  if (b.rank() == 2 && a.rank() > 2 && !transpose.a) return matmul(a, b, transpose);
  const Tensor c = batched_matmul(a.value(), b.value(), transpose);
  const Index n = c.rank() < 2 ? 1 : c.shape().product(0, c.rank() - 2);
  return record("batched_matmul", c)
      .wrt(a,  // dA = dC·Bᵀ, transposed if A is
           [b, n, transpose, shape = a.shape()]<class V>(const V& dc) {
             return sum_to(
                 product_with(dc, captured<V>(b), !transpose.a, of_left(transpose), n, products),
                 shape);
           })
      .wrt(b,  // dB = Aᵀ·dC, transposed if B is
           [a, n, transpose, shape = b.shape()]<class V>(const V& dc) {
             return sum_to(
                 product_with(dc, captured<V>(a), transpose.b, of_right(transpose), n, products),
                 shape);
           });
}

Var sum(const Var& x, const Axes& axes, KeepAxes keep) {
  return record("sum", sum(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes](const auto& dy) { return spread(dy, shape, axes); });
}

Var mean(const Var& x, const Axes& axes, KeepAxes keep) {
  return record("mean", mean(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes]<class V>(const V& dy) {
        return spread(V(dy / static_cast<double>(reduced_size(shape, axes))), shape, axes);
      });
}

Var max(const Var& x, const Axes& axes, KeepAxes keep) {
  return is_floating(x.dtype()) ? largest("max", x, axes, keep) : Var(max(x.value(), axes, keep));
}
Var min(const Var& x, const Axes& axes, KeepAxes keep) {
  return is_floating(x.dtype()) ? -largest("min", -x, axes, keep) : Var(min(x.value(), axes, keep));
}

Var prod(const Var& x, const Axes& axes, KeepAxes keep) {
  if (!is_floating(x.dtype())) return prod(x.value(), axes, keep);
  return over_axes("prod", x, axes, keep, [](const Var& of, int axis) -> Var {
    return record("prod", prod_forward(of.value(), axis))
        .joint(
            {of},
            [axis](auto& in, auto dy, auto& dx) { dx[0]->add(prod_backward(in[0], dy[0], axis)); },
            [axis](auto in) { return std::vector{reference::prod(in[0], axis)}; });
  });
}

Var norm(const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes("norm", x, axes, keep, [](const Var& of, int axis) -> Var {
    return record("norm", norm(of.value(), axis, KeepAxes::yes))
        .wrt(of, [x = of]<class V>(const V& dy, const V& y) {
          const auto zero = y == 0;
          return times(dy, V(where(zero, 0.0, captured<V>(x) / where(zero, 1.0, y))));
        });
  });
}

Var log_sum_exp(const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes("log_sum_exp", x, axes, keep, [](const Var& of, int axis) -> Var {
    return record("log_sum_exp", log_sum_exp(of.value(), axis, KeepAxes::yes))
        .wrt(of, [x = of, axis]<class V>(const V& dy) {
          // More accurate than exp(x - y), as y is rounded.
          return times(dy, softmax(captured<V>(x), axis));
        });
  });
}

Var detail::without_discarded(const Var& x, const Var& dy, Integer axis) {
  if (std::isfinite(sum(x.value()).item())) return x;
  const Tensor not_finite = sum(isfinite(x.value()) == 0, {axis}, KeepAxes::yes) != 0,
               used = sum(dy.value() != 0, {axis}, KeepAxes::yes) != 0;
  return where(not_finite > used, 0.0, x);
}

namespace {

Var softmax_backward(const Var& whole, const Var& dy, Integer axis) {
  const Var y = detail::without_discarded(whole, dy, axis);
  return y * (dy - sum(y * dy, {axis}, KeepAxes::yes));
}

Var sparsemax_backward(const Var& y, const Var& dy, Integer axis) {
  const Tensor support = y > 0;
  const Tensor count = maximum(sum(support, {axis}, KeepAxes::yes), 1);
  return support * (dy - sum(support * dy, {axis}, KeepAxes::yes) / count);
}

}  // namespace

Var softmax(const Var& x, Integer axis, const Mask& mask) {
  return record("softmax", softmax(x.value(), axis, mask))
      .wrt(x, [axis]<class V>(const V& dy, const V& y) { return softmax_backward(y, dy, axis); });
}

Var log_softmax(const Var& x, Integer axis) {
  return record("log_softmax", log_softmax(x.value(), axis))
      .wrt(x, [axis]<class V>(const V& dy, const V& y) {
        return dy - times(V(sum(dy, {axis}, KeepAxes::yes)), exp(y));
      });
}

Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon) {
  LayerNormForward forward = layer_norm_forward(x.value(), gain.value(), bias.value(), epsilon);
  const Tensor y = std::exchange(forward.y, {});  // not needed by backward
  return record("layer_norm", y)
      .joint(
          {x, gain, bias},
          [forward](auto& in, auto dy, auto& slots) {
            const auto& [dx, dgain, dbias] = slots;
            const LayerNormBackward d = layer_norm_backward(in[0], in[1], forward, dy[0]);
            if (dx) dx->add(d.dx);
            if (dgain) dgain->add(d.dgain);
            if (dbias) dbias->add(d.dbias);
          },
          [epsilon](auto in) {
            return std::vector{reference::layer_norm(in[0], in[1], in[2], epsilon)};
          });
}

Var sparsemax(const Var& x, Integer axis, const Mask& mask) {
  return record("sparsemax", sparsemax(x.value(), axis, mask))
      .wrt(x, [axis]<class V>(const V& dy, const V& y) { return sparsemax_backward(y, dy, axis); });
}

// Arrangement

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape)).wrt(x, [shape = x.shape()](const auto& dy) {
    return reshape(dy, shape);
  });
}

Var reshape(const Var& x, std::initializer_list<Integer> extents) {
  return reshape(x, x.value().reshape(extents).shape());
}

Var slice(const Var& x, Integer axis, Integer begin, Integer end) {
  axis = x.shape().axis(axis, "slice");
  const Index n = x.dim(axis), first = begin + (begin < 0 ? n : 0), last = end + (end < 0 ? n : 0);
  return record("slice",
                axis == 0 ? x.value().slice(first, last) : slice(x.value(), axis, begin, end))
      .wrt(x,
           [axis, first]<class V>(const V& dy, SlotOf<V>& dx) { dx.add_slice(dy, axis, first); });
}

Var broadcast_to(const Var& x, const Shape& shape) {
  return record("broadcast_to", broadcast_to(x.value(), shape))
      .wrt(x, [from = x.shape()](const auto& dy) { return sum_to(dy, from); });
}

Var permute(const Var& x, const Axes& axes) {
  const Tensor y = permute(x.value(), axes);
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[x.shape().axis(axes[i])] = static_cast<int>(i);
  return record("permute", y).wrt(x, [inverse](const auto& dy) { return permute(dy, inverse); });
}

Var transpose(const Var& x, Integer axis_a, Integer axis_b) {
  return record("transpose", transpose(x.value(), axis_a, axis_b)).wrt(x, [=](const auto& dy) {
    return transpose(dy, axis_a, axis_b);
  });
}

Var concat(std::span<const Var> parts, Integer axis) {
  Recording result = record("concat", concat(values_of(parts), axis));
  Index begin = 0;
  for (const Var& part : parts) {
    const Index end = begin + part.dim(axis);
    result.wrt(part, [axis, begin, end](const auto& dy) { return slice(dy, axis, begin, end); });
    begin = end;
  }
  return result;
}

Var stack(std::span<const Var> parts, Integer axis) {
  const Tensor y = stack(values_of(parts), axis);
  axis = y.shape().axis(axis);
  Recording result = record("stack", y);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result.wrt(parts[i], [=, shape = parts[i].shape()]<class V>(const V& dy) -> V {
      const auto index = static_cast<Index>(i);
      return axis == 0 ? dy[index] : reshape(slice(dy, axis, index, index + 1), shape);
    });
  }
  return result;
}

Var pad(const Var& x, Integer axis, Integer before, Integer after, double value) {
  const Tensor y = pad(x.value(), axis, before, after, value);
  return record("pad", y).wrt(x, [axis, before, end = y.dim(axis) - after](const auto& dy) {
    return slice(dy, axis, before, end);
  });
}

Var cumsum(const Var& x, Integer axis, Direction direction) {
  return record("cumsum", cumsum(x.value(), axis, direction)).wrt(x, [=](const auto& dy) {
    const bool forward = direction == Direction::forward;
    return cumsum(dy, axis, forward ? Direction::backward : Direction::forward);
  });
}

Var cumprod(const Var& x, Integer axis) {
  return record("cumprod", cumprod(x.value(), axis))
      .joint(
          {x},
          [axis](auto& in, auto dy, auto& dx) { dx[0]->add(cumprod_backward(in[0], dy[0], axis)); },
          [axis](auto in) { return std::vector{reference::cumprod(in[0], axis)}; });
}

Var gather(const Var& x, const Tensor& ids, Integer axis) {
  return record("gather", gather(x.value(), ids, axis))
      .wrt(x, [ids, axis, shape = x.shape()]<class V>(const V& dy, SlotOf<V>& dx) {
        if constexpr (std::is_same_v<V, Tensor>) {
          scatter_add_in_place(dx.accumulator(), ids, dy, axis);
        } else {
          dx.add(scatter_add(zeros(shape, dy.dtype()), ids, dy, axis));
        }
      });
}

Var scatter_add(const Var& x, const Tensor& ids, const Var& rows, Integer axis) {
  return record("scatter_add", scatter_add(x.value(), ids, rows.value(), axis))
      .wrt(x, [](const auto& dy) { return dy; })
      .wrt(rows, [ids, axis](const auto& dy) { return gather(dy, ids, axis); });
}

Var scatter(const Var& x, const Tensor& ids, const Var& rows, Integer axis) {
  axis = x.shape().axis(axis, "scatter");
  return record("scatter", scatter(x.value(), ids, rows.value(), axis))
      .wrt(x, [ids, axis, shape = rows.shape()](
                  const auto& dy) { return scatter(dy, ids, zeros(shape, dy.dtype()), axis); })
      .wrt(rows, [ids, axis]<class V>(const V& dy) -> V {
        const Tensor number = arange(ids.size()).reshape(ids.shape());
        const Tensor written = scatter(zeros({dy.dim(axis)}, DType::i32), ids, number);
        Shape shape = ids.shape();  // of the mask of the ids that count
        for (Index i = axis + 1; i < dy.rank(); ++i) shape = shape.inserted(-1, 1);
        const Mask counts = (gather(written, ids) == number).reshape(shape);
        return where(counts, gather(dy, ids, axis), 0.0);
      });
}

static Var unfold_backward(const Var& x, Integer steps, const UnfoldOptions& options) {
  return record("unfold", unfold_backward(x.value(), steps, options))
      .wrt(x, [options](const auto& dy) { return unfold(dy, options); });
}

Var unfold(const Var& x, const UnfoldOptions& options) {
  return record("unfold", unfold(x.value(), options))
      .wrt(x, [steps = x.dim(0), options](const auto& dy) {
        return unfold_backward(dy, steps, options);
      });
}

}  // namespace attune
