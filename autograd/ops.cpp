#include <cmath>
#include <functional>
#include <numbers>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>

namespace attune {

namespace {

/// slope(dy, kept) element by element, but 0 where dy is 0, even if the slope is infinite or NaN:
/// elements that `where` did not select have gradient 0.
template <class Slope>
Tensor sloped(const char* operation, const Tensor& dy, const Tensor& kept, Slope slope) {
  return zip(operation, dy, kept, [=]<class T>(T d, T v) {
    return detail::select(d != 0, static_cast<T>(slope(d, v)), T(0));
  });
}
Tensor times(const Tensor& dy, const Tensor& factor) {
  return sloped("multiply", dy, factor, std::multiplies<>());
}
Tensor over(const Tensor& dy, const Tensor& divisor) {
  return sloped("divide", dy, divisor, std::divides<>());
}

/// dy where the mask is 1 (with `ones` false: where it is 0), else 0, also if dy is infinite.
Tensor selected(const char* operation, const Tensor& dy, const Tensor& mask, bool ones) {
  return zip(operation, dy, mask,
             [=]<class T>(T d, T m) { return detail::select((m != 0) == ones, d, T(0)); });
}

/// The maximum, recorded as `operation`.
Var largest(OperationName operation, const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes(operation, x, axes, keep, [operation](const Var& of, int axis) -> Var {
    const auto [values, indices] = max_forward(of.value(), axis, operation);
    return record(operation, values)
        .wrt(of, [indices = indices, shape = of.shape(), axis](const Tensor& dy) {
          return max_backward(dy, indices, shape, axis);
        });
  });
}

/// y is a where chosen() is 1, else b. The selected operand gets the gradient.
template <class Chosen>
Var either(OperationName operation, const Tensor& y, const Var& a, const Var& b, Chosen chosen) {
  const auto share = [=](const Tensor& dy, const Shape& shape, bool of_a) {
    return sum_to(selected(operation, dy, chosen(), of_a), shape);
  };
  return record(operation, y)
      .wrt(a, [=, shape = a.shape()](const Tensor& dy) { return share(dy, shape, true); })
      .wrt(b, [=, shape = b.shape()](const Tensor& dy) { return share(dy, shape, false); });
}

/// dy of a reduction over `axes`, broadcast along the reduced axes.
Tensor spread(const Tensor& dy, const Shape& shape, const Axes& axes) {
  if (axes.empty()) return broadcast_to(dy.reshape(Shape()), shape);
  Shape kept = shape;
  for (int axis : axes) kept = kept.with(axis, 1);
  return broadcast_to(dy.reshape(kept), shape);
}

std::vector<Tensor> values_of(const std::vector<Var>& vars) {
  std::vector<Tensor> values;
  for (const Var& var : vars) values.push_back(var.value());
  return values;
}

}  // namespace

// Arithmetic

Var operator+(const Var& a, const Var& b) {
  return record("add", a.value() + b.value())
      .wrt(a, [shape = a.shape()](const Tensor& dy) { return sum_to(dy, shape); })
      .wrt(b, [shape = b.shape()](const Tensor& dy) { return sum_to(dy, shape); });
}

Var operator-(const Var& a, const Var& b) {
  return record("subtract", a.value() - b.value())
      .wrt(a, [shape = a.shape()](const Tensor& dy) { return sum_to(dy, shape); })
      .wrt(b, [shape = b.shape()](const Tensor& dy) { return -sum_to(dy, shape); });
}

Var operator*(const Var& a, const Var& b) {
  return record("multiply", a.value() * b.value())
      .wrt(a, [b = b.value(),
               shape = a.shape()](const Tensor& dy) { return sum_to(times(dy, b), shape); })
      .wrt(b, [a = a.value(), shape = b.shape()](const Tensor& dy) {
        return sum_to(times(dy, a), shape);
      });
}

Var operator/(const Var& a, const Var& b) {
  const Tensor y = a.value() / b.value();
  return record("divide", y)
      .wrt(a, [b = b.value(),
               shape = a.shape()](const Tensor& dy) { return sum_to(over(dy, b), shape); })
      .wrt(b, [y, b = b.value(), shape = b.shape()](const Tensor& dy) {
        return sum_to(over(-times(dy, y), b), shape);
      });
}

Var operator+(const Var& a, double b) {
  return record("add", a.value() + b).wrt(a, [](const Tensor& dy) { return dy; });
}
Var operator-(const Var& a, double b) { return a + -b; }
Var operator*(const Var& a, double b) {
  return record("multiply", a.value() * b).wrt(a, [b](const Tensor& dy) {
    return std::isfinite(static_cast<float>(b)) ? dy * b : times(dy, scalar(b, dy.dtype()));
  });
}
Var operator/(const Var& a, double b) {
  return record("divide", a.value() / b).wrt(a, [b](const Tensor& dy) {
    return static_cast<float>(b) != 0 ? dy / b : over(dy, scalar(b, dy.dtype()));
  });
}
Var operator+(double a, const Var& b) { return b + a; }
Var operator-(double a, const Var& b) { return Var(scalar(a, b.dtype())) - b; }
Var operator*(double a, const Var& b) { return b * a; }
Var operator/(double a, const Var& b) { return Var(scalar(a, b.dtype())) / b; }
Var operator-(const Var& x) {
  return record("negate", -x.value()).wrt(x, [](const Tensor& dy) { return -dy; });
}

// Functions of one element

#define ATTUNE_FUNCTION(name, kept, formula, gradient)                                         \
  Var name(const Var& input) {                                                                 \
    const Tensor &x = input.value(), y = name(x);                                              \
    const auto slope = []<class T>([[maybe_unused]] T dy, [[maybe_unused]] T kept) {           \
      return static_cast<T>(gradient);                                                         \
    };                                                                                         \
    return record(#name, y).wrt(                                                               \
        input, [slope, of = kept](const Tensor& dy) { return sloped(#name, dy, of, slope); }); \
  }
#include <attune/tensor/functions.inc>

Var gelu(const Var& x) {
  return record("gelu", gelu(x.value())).wrt(x, [x = x.value()](const Tensor& dy) {
    return gelu_backward(x, dy);
  });
}

Var power(const Var& a, const Var& b) {
  const Tensor y = power(a.value(), b.value());
  const auto by_a = [](auto x, auto p) { return p == 0 ? 0 : p * std::pow(x, p - 1); };
  const auto by_b = [](auto v, auto x) {  // 0 at x = 0 for b >= 0: the limit from b > 0
    return v == 0 || (x == 0 && v == 1) ? 0 : v * std::log(x);
  };
  return record("power", y)
      .wrt(a,
           [=, a = a.value(), b = b.value()](const Tensor& dy) {
             return sum_to(times(dy, zip("power", a, b, by_a)), a.shape());
           })
      .wrt(b, [=, a = a.value(), shape = b.shape()](const Tensor& dy) {
        return sum_to(times(dy, zip("power", y, a, by_b)), shape);
      });
}

Var power(const Var& a, double b) {
  return record("power", power(a.value(), b)).wrt(a, [b, a = a.value()](const Tensor& dy) {
    if (b == 0) return zeros(a.shape(), a.dtype());  // at a = 0 too
    return times(dy, power(a, b - 1) * b);
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

Var add_matmul(const Var& y, const Var& a, const Var& b, Transpose transpose) {
  Recording sum = record(y.defined() ? OperationName("add_matmul") : OperationName("matmul"),
                         add_matmul(y.value(), a.value(), b.value(), transpose));
  sum.wrt(y, [shape = y.shape()](const Tensor& dc) { return sum_to(dc, shape); });
  // C = A·B:  dA = dC·Bᵀ, transposed if A is.
  sum.wrt(a, [b = b.value(), transpose](const Tensor& dc) {
    return transpose.a ? matmul(b, dc, {.a = transpose.b, .b = true})
                       : matmul(dc, b, {.b = !transpose.b});
  });
  // dB = Aᵀ·dC, deferred until all uses of B are known.
  sum.wrt(b, [a = a.value(), transpose](const Tensor& dc, GradientSlot& db) {
    if (transpose.a) {
      db.add(transpose.b ? matmul(dc, a, {.a = true, .b = true}) : matmul(a, dc));
    } else {
      transpose.b ? db.add_product(dc, a) : db.add_product(a, dc);
    }
  });
  return sum;
}

Var matmul(const Var& a, const Var& b, Transpose transpose) {
  return add_matmul({}, a, b, transpose);
}

Var batched_matmul(const Var& a, const Var& b, Transpose transpose) {
  if (b.rank() == 2 && a.rank() > 2 && !transpose.a) return matmul(a, b, transpose);
  return record("batched_matmul", batched_matmul(a.value(), b.value(), transpose))
      .wrt(a,  // dA = dC·Bᵀ, transposed if A is
           [b = b.value(), transpose, shape = a.shape()](const Tensor& dc) {
             return sum_to(transpose.a ? batched_matmul(b, dc, {.a = transpose.b, .b = true})
                                       : batched_matmul(dc, b, {.b = !transpose.b}),
                           shape);
           })
      .wrt(b,  // dB = Aᵀ·dC, transposed if B is
           [a = a.value(), transpose, shape = b.shape()](const Tensor& dc) {
             return sum_to(transpose.b ? batched_matmul(dc, a, {.a = true, .b = transpose.a})
                                       : batched_matmul(a, dc, {.a = !transpose.a}),
                           shape);
           });
}

Var sum(const Var& x, const Axes& axes, KeepAxes keep) {
  return record("sum", sum(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes](const Tensor& dy) { return spread(dy, shape, axes); });
}

Var mean(const Var& x, const Axes& axes, KeepAxes keep) {
  return record("mean", mean(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes](const Tensor& dy) {
        return spread(dy / static_cast<double>(reduced_size(shape, axes)), shape, axes);
      });
}

Var max(const Var& x, const Axes& axes, KeepAxes keep) { return largest("max", x, axes, keep); }
Var min(const Var& x, const Axes& axes, KeepAxes keep) { return -largest("min", -x, axes, keep); }

Var prod(const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes("prod", x, axes, keep, [](const Var& of, int axis) -> Var {
    return record("prod", prod_forward(of.value(), axis))
        .wrt(of, [x = of.value(), axis](const Tensor& dy) { return prod_backward(x, dy, axis); });
  });
}

Var norm(const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes("norm", x, axes, keep, [](const Var& of, int axis) -> Var {
    const Tensor y = norm(of.value(), axis, KeepAxes::yes);
    return record("norm", y).wrt(of, [y, x = of.value()](const Tensor& dy) {
      return times(dy, zip("norm", x, y, [](auto v, auto n) { return n == 0 ? n : v / n; }));
    });
  });
}

Var log_sum_exp(const Var& x, const Axes& axes, KeepAxes keep) {
  return over_axes("log_sum_exp", x, axes, keep, [](const Var& of, int axis) -> Var {
    return record("log_sum_exp", log_sum_exp(of.value(), axis, KeepAxes::yes))
        .wrt(of, [x = of.value(), axis](const Tensor& dy) {
          return times(dy, softmax(x, axis));  // more accurate than exp(x - y), as y is rounded
        });
  });
}

Var softmax(const Var& x, Integer axis, const Mask& mask) {
  const Tensor y = softmax(x.value(), axis, mask);
  return record("softmax", y).wrt(x, [y, axis](const Tensor& dy) {
    return softmax_backward(y, dy, axis);
  });
}

Var log_softmax(const Var& x, Integer axis) {
  const Tensor y = log_softmax(x.value(), axis);
  return record("log_softmax", y).wrt(x, [y, axis](const Tensor& dy) {
    return dy - times(sum(dy, {axis}, KeepAxes::yes), exp(y));
  });
}

Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon) {
  LayerNormForward forward = layer_norm_forward(x.value(), gain.value(), bias.value(), epsilon);
  const Tensor y = std::exchange(forward.y, {});  // not needed by backward
  return record("layer_norm", y)
      .joint({x, gain, bias},
             [forward, x = x.value(), gain = gain.value()](auto dy, const auto& slots) {
               const auto& [dx, dgain, dbias] = slots;
               const LayerNormBackward d = layer_norm_backward(x, gain, forward, dy[0]);
               if (dx) dx->add(d.dx);
               if (dgain) dgain->add(d.dgain);
               if (dbias) dbias->add(d.dbias);
             });
}

Var sparsemax(const Var& x, Integer axis, const Mask& mask) {
  const Tensor y = sparsemax(x.value(), axis, mask);
  return record("sparsemax", y).wrt(x, [y, axis](const Tensor& dy) {
    return sparsemax_backward(y, dy, axis);
  });
}

// Arrangement

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape)).wrt(x, [shape = x.shape()](const Tensor& dy) {
    return dy.reshape(shape);
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
      .wrt(x, [axis, first](const Tensor& dy, GradientSlot& dx) {
        add_to_slice(dx.accumulator(), dy, axis, first);
      });
}

Var broadcast_to(const Var& x, const Shape& shape) {
  return record("broadcast_to", broadcast_to(x.value(), shape))
      .wrt(x, [from = x.shape()](const Tensor& dy) { return sum_to(dy, from); });
}

Var permute(const Var& x, const Axes& axes) {
  const Tensor y = permute(x.value(), axes);
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[x.shape().axis(axes[i])] = static_cast<int>(i);
  return record("permute", y).wrt(x, [inverse](const Tensor& dy) { return permute(dy, inverse); });
}

Var transpose(const Var& x, Integer axis_a, Integer axis_b) {
  return record("transpose", transpose(x.value(), axis_a, axis_b)).wrt(x, [=](const Tensor& dy) {
    return transpose(dy, axis_a, axis_b);
  });
}

Var concat(const std::vector<Var>& parts, Integer axis) {
  Recording result = record("concat", concat(values_of(parts), axis));
  Index begin = 0;
  for (const Var& part : parts) {
    const Index end = begin + part.dim(axis);
    result.wrt(part, [axis, begin, end](const Tensor& dy) { return slice(dy, axis, begin, end); });
    begin = end;
  }
  return result;
}

Var stack(const std::vector<Var>& parts, Integer axis) {
  const Tensor y = stack(values_of(parts), axis);
  axis = y.shape().axis(axis);
  Recording result = record("stack", y);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result.wrt(parts[i], [=, shape = parts[i].shape()](const Tensor& dy) {
      const auto index = static_cast<Index>(i);
      return axis == 0 ? dy[index] : slice(dy, axis, index, index + 1).reshape(shape);
    });
  }
  return result;
}

Var pad(const Var& x, Integer axis, Integer before, Integer after, double value) {
  const Tensor y = pad(x.value(), axis, before, after, value);
  return record("pad", y).wrt(x, [axis, before, end = y.dim(axis) - after](const Tensor& dy) {
    return slice(dy, axis, before, end);
  });
}

Var cumsum(const Var& x, Integer axis, Direction direction) {
  return record("cumsum", cumsum(x.value(), axis, direction)).wrt(x, [=](const Tensor& dy) {
    const bool forward = direction == Direction::forward;
    return cumsum(dy, axis, forward ? Direction::backward : Direction::forward);
  });
}

Var gather(const Var& x, const Tensor& ids, Integer axis) {
  return record("gather", gather(x.value(), ids, axis))
      .wrt(x, [ids, axis](const Tensor& dy, GradientSlot& dx) {
        scatter_add_in_place(dx.accumulator(), ids, dy, axis);
      });
}

Var scatter_add(const Var& x, const Tensor& ids, const Var& rows, Integer axis) {
  return record("scatter_add", scatter_add(x.value(), ids, rows.value(), axis))
      .wrt(x, [](const Tensor& dy) { return dy; })
      .wrt(rows, [=](const Tensor& dy) { return gather(dy, ids, axis); });
}

Var unfold(const Var& x, const UnfoldOptions& options) {
  return record("unfold", unfold(x.value(), options))
      .wrt(x, [steps = x.dim(0), options](const Tensor& dy) {
        return unfold_backward(dy, steps, options);
      });
}

}  // namespace attune
