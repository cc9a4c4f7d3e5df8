// Checks gradients against central differences.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <attune/autograd/backward.hpp>

namespace attune {

/// Settings of gradcheck.
struct GradcheckOptions {
  double tolerance = 1e-6;  // relative
  double step = 1e-3;       // h of the five-point stencil
  bool allow_zero = false;  // if false, a gradient that is zero everywhere is a failure
  int order = 1;            // 2: also checks grad, and the gradients of its gradients
};

/// Converts to true if all gradients agree. Otherwise `message` describes the first mismatch.
struct [[nodiscard]] GradcheckResult {
  std::string message;
  /// True if function values suggest a kink or jump within 2h of the point. The difference may then
  /// be inaccurate: try another point or a smaller step.
  bool rough = false;
  explicit operator bool() const { return message.empty(); }
};
std::ostream& operator<<(std::ostream& out, const GradcheckResult& result);

/// Compares the gradient of Σ w ⊙ f() that backward computes with the five-point central difference
///     (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h
/// for every element of every variable. The weights w are fixed and random, as equal weights could
/// hide errors. The analytic gradient a and the numeric gradient n agree if
/// |a - n| <= tolerance · max(|a|, |n|, largest |gradient| of that variable) + rounding error. The
/// rounding error of the difference is about 1e-15 / h, times |w ⊙ f| and |x ⊙ gradient| of all
/// variables. Throws unless elements are f64. Points must be at least 2h away from kinks; the
/// message of a mismatch names a probable kink. Variables are changed in place and restored.
GradcheckResult gradcheck(std::span<const NamedVariable> variables, const std::function<Var()>& f,
                          const GradcheckOptions& options = {});

/// gradcheck(f, {x, w, b}): f takes a vector of inputs, which become variables.
GradcheckResult gradcheck(const std::function<Var(const std::vector<Var>&)>& f,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

/// The same for a function of one tensor; it may be an overloaded one, as in gradcheck(sigmoid, x).
template <class F>
requires std::is_invocable_r_v<Var, F&, const Var&> GradcheckResult
gradcheck(F f, const Tensor& x, const GradcheckOptions& options = {}) {
  return gradcheck([&f](const std::vector<Var>& v) { return f(v[0]); }, std::vector<Tensor>{x},
                   options);
}
inline GradcheckResult gradcheck(Var (*f)(const Var&), const Tensor& x,
                                 const GradcheckOptions& options = {}) {
  return gradcheck<decltype(f)>(f, x, options);
}

}  // namespace attune
