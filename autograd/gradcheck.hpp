// Checking gradients against central differences.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <attune/autograd/backward.hpp>

namespace attune {

namespace detail {
/// True while gradcheck runs in this thread: warnings about training are not meant for it.
inline thread_local bool checking_gradients = false;
}  // namespace detail

struct GradcheckOptions {
  double tolerance = 1e-6;
  double step = 1e-3;       // h of the five-point stencil
  bool allow_zero = false;  // whether a gradient may be zero everywhere
};

/// True when all gradients agree; otherwise the message says where they do not.
struct [[nodiscard]] GradcheckResult {
  std::string message;
  /// Whether the function may have a kink or a jump within 2h, judged by its values alone. The
  /// difference may then be wrong: try another point or a smaller step.
  bool rough = false;
  explicit operator bool() const { return message.empty(); }
};
std::ostream& operator<<(std::ostream& out, const GradcheckResult& result);

/// Compares backward's gradient of Σ w ⊙ f() (w fixed and random, since symmetric cotangents hide
/// errors) with the five-point central difference
///     (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h
/// for every element of every variable. Analytic a and numeric n agree when
/// |a - n| <= tolerance · max(|a|, |n|, largest |gradient| of that variable), plus what rounding
/// makes of the difference: some 1e-15 / h, times |w ⊙ f| and |x ⊙ gradient| of all variables.
/// Elements must be f64 and points at least 2h off kinks; the message of a mismatch names a probable
/// kink. Variables are changed in place and put back.
GradcheckResult gradcheck(std::span<const NamedVariable> variables, const std::function<Var()>& f,
                          const GradcheckOptions& options = {});

/// gradcheck(f, {x, w, b}), where f takes a vector of inputs.
GradcheckResult gradcheck(const std::function<Var(const std::vector<Var>&)>& f,
                          const std::vector<Tensor>& inputs, const GradcheckOptions& options = {});

/// A function of one tensor: an object, or one named without choosing an overload, as in
/// gradcheck(sigmoid, x).
template <class F>
requires std::is_invocable_r_v<Var, F&, const Var&> GradcheckResult
gradcheck(F f, const Tensor& x, const GradcheckOptions& options = {}) {
  return gradcheck([&f](const std::vector<Var>& v) { return f(v[0]); }, std::vector{x}, options);
}
inline GradcheckResult gradcheck(Var (*f)(const Var&), const Tensor& x,
                                 const GradcheckOptions& options = {}) {
  return gradcheck<decltype(f)>(f, x, options);
}

}  // namespace attune
