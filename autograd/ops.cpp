#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/softmax.hpp>

namespace attune {

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
      .wrt(a,
           [b = b.value(), shape = a.shape()](const Tensor& dy) { return sum_to(dy * b, shape); })
      .wrt(b,
           [a = a.value(), shape = b.shape()](const Tensor& dy) { return sum_to(dy * a, shape); });
}

Var operator/(const Var& a, const Var& b) {
  const Tensor y = a.value() / b.value();
  return record("divide", y)
      .wrt(a,
           [b = b.value(), shape = a.shape()](const Tensor& dy) { return sum_to(dy / b, shape); })
      .wrt(b, [y, b = b.value(), shape = b.shape()](const Tensor& dy) {
        return sum_to(-(dy * y) / b, shape);
      });
}

Var operator+(const Var& a, double b) {
  return record("add", a.value() + b).wrt(a, [](const Tensor& dy) { return dy; });
}
Var operator-(const Var& a, double b) { return a + -b; }
Var operator*(const Var& a, double b) {
  return record("multiply", a.value() * b).wrt(a, [b](const Tensor& dy) { return dy * b; });
}
Var operator/(const Var& a, double b) {
  return record("divide", a.value() / b).wrt(a, [b](const Tensor& dy) { return dy / b; });
}
Var operator+(double a, const Var& b) { return b + a; }
Var operator-(double a, const Var& b) {
  return record("subtract", a - b.value()).wrt(b, [](const Tensor& dy) { return -dy; });
}
Var operator*(double a, const Var& b) { return b * a; }
Var operator/(double a, const Var& b) {
  const Tensor y = a / b.value();
  return record("divide", y).wrt(b, [y, b = b.value()](const Tensor& dy) { return -(dy * y) / b; });
}
Var operator-(const Var& x) {
  return record("negate", -x.value()).wrt(x, [](const Tensor& dy) { return -dy; });
}

// Functions of one element

Var exp(const Var& x) {
  const Tensor y = exp(x.value());
  return record("exp", y).wrt(x, [y](const Tensor& dy) { return dy * y; });
}

Var log(const Var& x) {
  return record("log", log(x.value())).wrt(x, [x = x.value()](const Tensor& dy) { return dy / x; });
}

Var tanh(const Var& x) {
  const Tensor y = tanh(x.value());
  return record("tanh", y).wrt(x, [y](const Tensor& dy) {
    return zip("tanh", dy, y, [](auto d, auto t) { return d * (1 - t * t); });
  });
}

Var sigmoid(const Var& x) {
  const Tensor y = sigmoid(x.value());
  return record("sigmoid", y).wrt(x, [y](const Tensor& dy) {
    return zip("sigmoid", dy, y, [](auto d, auto s) { return d * s * (1 - s); });
  });
}

Var softplus(const Var& x) {
  return record("softplus", softplus(x.value())).wrt(x, [x = x.value()](const Tensor& dy) {
    return dy * sigmoid(x);
  });
}

Var maximum(const Var& a, const Var& b) {
  const auto share = [a = a.value(), b = b.value()](const Tensor& dy, bool of_a) {
    const Tensor chosen =
        zip("maximum", a, b, [of_a](auto x, auto y) { return decltype(x)((x >= y) == of_a); });
    return sum_to(dy * chosen, of_a ? a.shape() : b.shape());
  };
  return record("maximum", maximum(a.value(), b.value()))
      .wrt(a, [share](const Tensor& dy) { return share(dy, true); })
      .wrt(b, [share](const Tensor& dy) { return share(dy, false); });
}

Var maxout(const Var& x) {
  if (x.rank() == 0 || x.dim(-1) % 2 != 0) {
    fail("maxout",
         fmt::format("the last axis of {} does not divide into pairs", to_string(x.shape())));
  }
  const Index half = x.dim(-1) / 2;
  return maximum(slice(x, -1, 0, half), slice(x, -1, half, 2 * half));
}

// Products and sums

Var matmul(const Var& a, const Var& b, Transpose transpose) {
  Recording product = record("matmul", matmul(a.value(), b.value(), transpose));
  // C = A·B:  dA = dC·Bᵀ, and the transpose of it where A came in transposed.
  product.wrt(a, [b = b.value(), transpose](const Tensor& dc) {
    return transpose.a ? matmul(b, dc, {.a = transpose.b, .b = true})
                       : matmul(dc, b, {.b = !transpose.b});
  });
  // dB = Aᵀ·dC, put off until all uses of B are known.
  product.wrt(b, [a = a.value(), transpose](const Tensor& dc, GradientSlot& db) {
    if (transpose.a) {
      db.add(transpose.b ? matmul(dc, a, {.a = true, .b = true}) : matmul(a, dc));
    } else {
      transpose.b ? db.add_product(dc, a) : db.add_product(a, dc);
    }
  });
  return product;
}

namespace {

/// dy of a reduction over `axes`, repeated over what was reduced.
Tensor spread(const Tensor& dy, const Shape& shape, const std::vector<int>& axes) {
  Shape kept = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes.empty()) kept = kept.with(axis, 1);
  }
  for (int axis : axes) kept = kept.with(axis, 1);
  return zip("sum", dy.reshape(kept), zeros(shape, dy.dtype()), [](auto d, auto) { return d; });
}

}  // namespace

Var sum(const Var& x, const std::vector<int>& axes, KeepAxes keep) {
  return record("sum", sum(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes](const Tensor& dy) { return spread(dy, shape, axes); });
}

Var mean(const Var& x, const std::vector<int>& axes, KeepAxes keep) {
  return record("mean", mean(x.value(), axes, keep))
      .wrt(x, [shape = x.shape(), axes](const Tensor& dy) {
        return spread(dy / static_cast<double>(reduced_size(shape, axes)), shape, axes);
      });
}

Var softmax(const Var& x, int axis, const Tensor& mask) {
  const Tensor y = softmax(x.value(), axis, mask);
  return record("softmax", y).wrt(x, [y, axis](const Tensor& dy) {
    return softmax_backward(y, dy, axis);
  });
}

Var log_softmax(const Var& x, int axis) {
  const Tensor y = log_softmax(x.value(), axis);
  return record("log_softmax", y).wrt(x, [y, axis](const Tensor& dy) {
    return log_softmax_backward(y, dy, axis);
  });
}

// Arrangement

Var reshape(const Var& x, const Shape& shape) {
  return record("reshape", x.value().reshape(shape)).wrt(x, [shape = x.shape()](const Tensor& dy) {
    return dy.reshape(shape);
  });
}

Var reshape(const Var& x, std::initializer_list<Index> extents) {
  return reshape(x, x.value().reshape(extents).shape());
}

Var slice(const Var& x, int axis, Index begin, Index end) {
  axis = x.shape().axis(axis);
  return record("slice",
                axis == 0 ? x.value().slice(begin, end) : slice(x.value(), axis, begin, end))
      .wrt(x,
           [axis, begin](const Tensor& dy, GradientSlot& dx) { dx.add_to_slice(dy, axis, begin); });
}

Var Var::operator[](Index t) const {
  const Tensor row = value()[t];
  return record("slice", row).wrt(*this, [t](const Tensor& dy, GradientSlot& dx) {
    dx.add_to_slice(dy.reshape(dy.shape().inserted(0, 1)), 0, t);
  });
}

namespace {

std::vector<Tensor> values_of(const std::vector<Var>& vars) {
  std::vector<Tensor> values;
  for (const Var& var : vars) values.push_back(var.value());
  return values;
}

}  // namespace

Var concat(const std::vector<Var>& parts, int axis) {
  Recording result = record("concat", concat(values_of(parts), axis));
  Index begin = 0;
  for (const Var& part : parts) {
    const Index end = begin + part.dim(axis);
    result.wrt(part, [axis, begin, end](const Tensor& dy) { return slice(dy, axis, begin, end); });
    begin = end;
  }
  return result;
}

Var stack(const std::vector<Var>& rows) {
  Recording result = record("stack", stack(values_of(rows)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    result.wrt(rows[i], [i](const Tensor& dy) { return dy[static_cast<Index>(i)]; });
  }
  return result;
}

Var gather(const Var& table, const Tensor& ids) {
  return record("gather", gather(table.value(), ids))
      .wrt(table, [ids](const Tensor& dy, GradientSlot& dtable) { dtable.add_rows(ids, dy); });
}

}  // namespace attune
