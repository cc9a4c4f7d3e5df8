// Declares a differentiable operation: its value, and a pullback for each input.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/var.hpp>

namespace attune {

/// The name of an operation. Only a string literal compiles, as the graph stores the pointer.
class OperationName {
 public:
  consteval OperationName(const char* name) : name_(name) {}  // NOLINT: implicit conversion
  operator const char*() const { return name_; }              // NOLINT: implicit conversion

 private:
  const char* name_;
};

/// An operation being declared. It converts to the resulting Var.
///
///     Var softplus(const Var& x) {
///       return record("softplus", softplus(x.value())).wrt(x, [x = x.value()](const Tensor& dy) {
///         return dy * sigmoid(x);
///       });
///     }
///
/// A pullback's captures stay alive until backward. So capture tensors, and only those that the
/// pullback needs. Never capture the result Var: it would keep itself alive. If an input needs no
/// gradient, its pullback is dropped at once.
class Recording {
 public:
  Recording(OperationName operation, Tensor value) : operation_(operation), values_(1) {
    values_[0] = std::move(value);
  }
  Recording(OperationName operation, std::initializer_list<Tensor> values)
      : operation_(operation), values_(values.size()) {
    std::ranges::copy(values, values_.begin());
  }

  /// Adds the pullback of input x: a function dy -> dx from the gradient of the (only) result to
  /// the gradient of x, or a function (dy, slot) that adds its contribution to x's GradientSlot.
  template <class Pullback>
  Recording& wrt(const Var& x, Pullback pullback) {
    return joint({x}, [f = std::move(pullback)](auto dy, const auto& dx) mutable {
      if constexpr (std::is_invocable_v<Pullback&, const Tensor&, GradientSlot&>) {
        f(dy[0], *dx[0]);
      } else {
        dx[0]->add(f(dy[0]));
      }
    });
  }

  /// Adds one pullback (dy, dx) for several inputs: for operations with several results, or whose
  /// gradients share work. dy[i] is the gradient of the i-th result, undefined if it got none.
  /// dx[i] points to the GradientSlot of the i-th input, to which the pullback adds; it is null if
  /// the input needs no gradient (a constant, or a variable whose gradient was not requested):
  ///     .joint({q, k}, [](auto dy, const auto& dx) { const auto& [dq, dk] = dx; ... })
  template <std::size_t N, class Pullback>
  Recording& joint(const std::reference_wrapper<const Var> (&inputs)[N], Pullback&& pullback) {
    static_assert(N <= detail::max_joint_inputs);
    bool needed = false;
    for (const Var& input : inputs) {
      if (detail::detects_anomaly()) [[unlikely]]
        inputs_.push_back(input);
      needed |= input.requires_gradient();
    }
    if (!needed || !detail::thread_state.records_history) return *this;
    std::array<detail::Target, N> targets;
    for (std::size_t i = 0; i < N; ++i)
      targets[i] = {inputs[i].get().node(), inputs[i].get().output()};
    add(new detail::EdgeOf<N, std::decay_t<Pullback>>(std::move(targets),
                                                      std::forward<Pullback>(pullback)));
    return *this;
  }

  /// Converts an operation with one result to that result, as in `return record(...).wrt(...)`.
  operator Var() const { return output(0); }  // NOLINT
  Var output(std::uint32_t i) const {
    check_output(i);
    return Var(values_[i], node_, i);
  }

 private:
  void add(detail::Edge* edge);
  void check_output(std::uint32_t i) const {
    if (detail::detects_anomaly()) [[unlikely]]
      detail::check_result(operation_, values_[i], inputs_);
  }

  const char* operation_;
  detail::PerOutput<Tensor> values_;
  detail::NodePointer node_;
  detail::Edge* last_ = nullptr;  // last edge of the node
  std::vector<Var> inputs_;       // set only while anomalies are detected
};

/// True if an operation on these inputs is recorded for backward.
template <class... Vars>
bool recorded(const Vars&... inputs) {
  return detail::thread_state.records_history && (inputs.requires_gradient() || ...);
}

/// Declares an operation with one result.
inline Recording record(OperationName operation, Tensor value) {
  return Recording(operation, std::move(value));
}
/// Declares an operation with several results.
inline Recording record(OperationName operation, std::initializer_list<Tensor> values) {
  return Recording(operation, values);
}

}  // namespace attune
