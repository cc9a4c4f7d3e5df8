#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>

#include <fmt/format.h>

#include <attune/autograd/grad.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

/// With history, as f may call grad.
Tensor evaluate(const std::function<Var()>& f) {
  return f().value().clone();  // may be a view of a variable, which changes next
}

/// Σ w (a - b). Subtracts before summing: the difference of two sums would lose digits.
double weighted_difference(const Tensor& w, const Tensor& a, const Tensor& b) {
  return sum(w * (a - b)).item();
}

/// Rounding-error estimate of numeric_gradient, assuming that the result of f and its variables are
/// off by some units in the last place, independently.
double rounding_error(const Tensor& w, const Tensor& y, std::span<const NamedVariable> variables,
                      const Gradients& gradients, double h) {
  constexpr double units = 16 * std::numeric_limits<double>::epsilon() / 2;
  double squares = sum(w * y * w * y).item();
  for (const NamedVariable& named : variables) {
    const Tensor *g = gradients.find(named.variable), &x = named.variable.value();
    if (g) squares += sum(*g * x * *g * x).item();
  }
  return 1.5 * units * std::sqrt(squares) / h;
}

/// A central difference, and an estimate of its error from kinks or jumps: the deviation of the
/// values at h and 2h from every cubic polynomial.
struct Difference {
  double value, roughness;
};

/// Central differences of all elements; y is f() at the unchanged point.
std::vector<Difference> numeric_gradient(Tensor x, const std::function<Var()>& f, const Tensor& y,
                                         const Tensor& w, double h) {
  std::vector<Difference> gradient(x.size());
  for (Index i = 0; i < x.size(); ++i) {
    const double before = x.data<double>()[i];
    const auto at = [&](double offset) {
      x.mutable_data<double>()[i] = before + offset;
      return evaluate(f);
    };
    struct PutBack {  // also if f throws
      Tensor& x;
      Index i;
      double before;
      ~PutBack() { x.mutable_data<double>()[i] = before; }
    } put_back{x, i, before};
    const auto change = [&](double offset) { return weighted_difference(w, at(offset), y); };
    const double up = change(h), down = change(-h), far_up = change(2 * h),
                 far_down = change(-2 * h);
    const double odd = 2 * (up - down) - (far_up - far_down);
    const double even = 4 * (up + down) - (far_up + far_down);
    gradient[i] = {(8 * (up - down) - (far_up - far_down)) / (12 * h),
                   (std::abs(odd) + std::abs(even)) / (2 * h)};
  }
  return gradient;
}

GradcheckResult compare(const NamedVariable& named, const char* by, const Tensor* analytic,
                        const std::vector<Difference>& numeric, double rounding,
                        const GradcheckOptions& options) {
  const Shape& shape = named.variable.shape();
  std::vector<double> gradient(numeric.size());
  if (analytic) gradient = analytic->to_vector<double>();
  const auto differ = [&](std::size_t i, bool rough) -> GradcheckResult {
    return {
        fmt::format("gradcheck: {} {}, element {}: {} gave {:g}, central difference {:g}{}",
                    named.name, to_string(shape), element_name(shape, static_cast<Index>(i)), by,
                    detail::shown(gradient[i]), detail::shown(numeric[i].value),
                    rough ? "; probably a kink is near: try a smaller .step or another point" : ""),
        rough};
  };
  double largest = 0;
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    // An infinite or NaN gradient would make the tolerance infinite or NaN.
    if (!std::isfinite(gradient[i]) || !std::isfinite(numeric[i].value)) return differ(i, false);
    largest = std::max({largest, std::abs(gradient[i]), std::abs(numeric[i].value)});
  }
  for (std::size_t i = 0; i < numeric.size(); ++i) {
    const double error = std::abs(gradient[i] - numeric[i].value);
    if (error > options.tolerance * largest + rounding)
      return differ(i, numeric[i].roughness > error / 2);
  }
  if (largest == 0 && !numeric.empty() && !options.allow_zero) {
    return {fmt::format("gradcheck: {} {}: the gradient is zero everywhere; .allow_zero permits it",
                        named.name, to_string(shape))};
  }
  return {};
}

/// Checks the gradients that grad computes, as functions of the variables and of dy.
GradcheckResult second_order(std::span<const NamedVariable> variables,
                             const std::function<Var()>& f, GradcheckOptions options) {
  std::vector<Var> x;
  std::vector<NamedVariable> all(variables.begin(), variables.end());
  for (const NamedVariable& named : variables) x.push_back(named.variable);
  Random random(20061225);
  const Var dy = variable(normal(f().shape(), random, DType::f64));
  all.push_back({"dy", dy});
  options.order -= 1, options.allow_zero = true;
  return gradcheck(
      all,
      [&] {
        std::vector<Var> flat;
        for (const Var& g : grad(f(), x, dy)) flat.push_back(reshape(g, {-1}));
        return concat(flat, 0);
      },
      options);
}

}  // namespace

GradcheckResult gradcheck(std::span<const NamedVariable> variables, const std::function<Var()>& f,
                          const GradcheckOptions& options) {
  for (const auto& [name, variable] : variables) {
    if (variable.dtype() != DType::f64)
      fail("gradcheck", "{} is {}, but must be f64", name, name_of(variable.dtype()));
  }
  const Var y = f();
  if (y.dtype() != DType::f64) fail("gradcheck", "the result must be f64");
  Random random(20140901);
  const Tensor w = normal(y.shape(), random, DType::f64);
  const Tensor start = evaluate(f);
  if (weighted_difference(w, y.value(), start) != 0)
    return {"gradcheck: two calls of the function differ, or a value is not finite"};
  const bool constant = !y.requires_gradient();
  if (constant && !options.allow_zero) return {"gradcheck: the result depends on no variable"};
  const detail::ScopedValue silent(detail::thread_state.checks_gradients, true);
  const Gradients gradients = constant ? Gradients() : backward(y, w);
  const double rounding = rounding_error(w, y.value(), variables, gradients, options.step);
  const auto recorded =
      options.order > 1 && !constant ? grad(sum(f() * w), variables) : std::vector<Var>();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const NamedVariable& named = variables[i];
    const auto numeric = numeric_gradient(named.variable.value(), f, start, w, options.step);
    GradcheckResult result =
        compare(named, "backward", gradients.find(named.variable), numeric, rounding, options);
    if (result && !recorded.empty())
      result = compare(named, "grad", &recorded[i].value(), numeric, rounding, options);
    if (!result) return result;
  }
  return options.order > 1 ? second_order(variables, f, options) : GradcheckResult();
}

GradcheckResult gradcheck(const std::function<Var(const std::vector<Var>&)>& f,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options) {
  std::vector<NamedVariable> named;
  std::vector<Var> vars;
  for (const Tensor& input : inputs) {
    vars.push_back(variable(input.clone()));
    named.push_back({fmt::format("input {}", named.size()), vars.back()});
  }
  return gradcheck(
      named, [&] { return f(vars); }, options);
}

std::ostream& operator<<(std::ostream& out, const GradcheckResult& result) {
  return out << (result ? "gradients agree" : result.message);
}

}  // namespace attune
