#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune {
namespace {

Tensor evaluate(const std::function<Var()>& f) {
  const NoGrad no_grad;
  return f().value().clone();  // it may be a view of a variable, which is about to change
}

/// Σ w (a - b): differences are taken before the sum, which would cancel them.
double weighted_difference(const Tensor& w, const Tensor& a, const Tensor& b) {
  const double *weight = w.data<double>(), *x = a.data<double>(), *y = b.data<double>();
  double total = 0;
  for (Index i = 0; i < w.size(); ++i) total += weight[i] * (x[i] - y[i]);
  return total;
}

std::string element_name(const Shape& shape, Index flat) {
  std::vector<Index> at(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return to_string(Shape(at));
}

/// Every element's central difference.
std::vector<double> numeric_gradient(Tensor x, const std::function<Var()>& f, const Tensor& w,
                                     double h) {
  std::vector<double> gradient(static_cast<std::size_t>(x.size()));
  for (Index i = 0; i < x.size(); ++i) {
    const double before = x.data<double>()[i];
    const auto at = [&](double offset) {
      x.mutable_data<double>()[i] = before + offset;
      return evaluate(f);
    };
    struct PutBack {
      Tensor& x;
      Index i;
      double before;
      ~PutBack() { x.mutable_data<double>()[i] = before; }
    } put_back{x, i, before};
    const double near = weighted_difference(w, at(h), at(-h));
    const double far = weighted_difference(w, at(2 * h), at(-2 * h));
    gradient[static_cast<std::size_t>(i)] = (8 * near - far) / (12 * h);
  }
  return gradient;
}

std::string compare(const NamedVariable& named, const Tensor* analytic,
                    const std::vector<double>& numeric, const GradcheckOptions& options) {
  const Shape& shape = named.variable.shape();
  std::vector<double> gradient(numeric.size());
  if (analytic) gradient = analytic->to_vector<double>();
  double largest = 0;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    largest = std::max({largest, std::abs(gradient[i]), std::abs(numeric[i])});
  }
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    if (std::abs(gradient[i] - numeric[i]) <= options.tolerance * largest)
      continue;  // NaN does not
    return fmt::format("gradcheck: {} {}, element {}: backward gave {:g}, central difference {:g}",
                       named.name, to_string(shape), element_name(shape, static_cast<Index>(i)),
                       gradient[i], numeric[i]);
  }
  if (largest == 0 && !numeric.empty() && !options.allow_zero) {
    return fmt::format("gradcheck: {} {}: the gradient is zero everywhere", named.name,
                       to_string(shape));
  }
  return {};
}

}  // namespace

GradcheckResult gradcheck(std::span<const NamedVariable> variables, const std::function<Var()>& f,
                          const GradcheckOptions& options) {
  for (const auto& [name, variable] : variables) {
    if (variable.dtype() != DType::f64)
      fail("gradcheck", fmt::format("{} is {}, but must be f64", name, name_of(variable.dtype())));
  }
  const Var y = f();
  if (y.dtype() != DType::f64) fail("gradcheck", "the result must be f64");
  const Tensor w = randn(y.shape(), 20140901);
  if (weighted_difference(w, y.value(), evaluate(f)) != 0)
    return {"gradcheck: two calls of the function differ"};
  if (!y.requires_gradient()) return {"gradcheck: the result depends on no variable"};
  const Gradients gradients = backward(y, w);
  for (const NamedVariable& named : variables) {
    const std::vector<double> numeric =
        numeric_gradient(named.variable.value(), f, w, options.step);
    const std::string message = compare(named, gradients.find(named.variable), numeric, options);
    if (!message.empty()) return {message};
  }
  return {};
}

namespace detail {

GradcheckResult gradcheck_inputs(const std::function<Var(const std::vector<Var>&)>& f,
                                 const std::vector<Tensor>& inputs,
                                 const GradcheckOptions& options) {
  std::vector<NamedVariable> named;
  std::vector<Var> vars;
  for (const Tensor& input : inputs) {
    vars.push_back(variable(input.clone()));
    named.push_back({fmt::format("input {}", named.size()), vars.back()});
  }
  return attune::gradcheck(
      named, [&] { return f(vars); }, options);
}

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const GradcheckResult& result) {
  return out << (result ? "gradients agree" : result.message);
}

}  // namespace attune
