// Declaring a differentiable operation: its value, and a pullback for each input.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/var.hpp>
#include <attune/tensor/matmul.hpp>

namespace attune {

/// The name of an operation: a literal, as the graph keeps the pointer. No other string compiles.
class OperationName {
 public:
  consteval OperationName(const char* name) : name_(name) {}  // NOLINT: a literal is a name
  operator const char*() const { return name_; }              // NOLINT: and is used as one

 private:
  const char* name_;
};

/// An operation being declared; converts to the Var that is its result.
///
///     Var softplus(const Var& x) {
///       return record("softplus", softplus(x.value())).wrt(x, [x = x.value()](const Tensor& dy) {
///         return dy * sigmoid(x);
///       });
///     }
///
/// What a pullback captures is what stays alive for backward, so capture tensors, and only those
/// that are needed; never the result Var, which would keep itself alive. A pullback whose input
/// needs no gradient is dropped at once.
class Recording {
 public:
  Recording(OperationName operation, Tensor value) : operation_(operation), values_(1) {
    values_[0] = std::move(value);
  }
  Recording(OperationName operation, std::initializer_list<Tensor> values)
      : operation_(operation), values_(values.size()) {
    std::ranges::copy(values, values_.begin());
  }

  /// A pullback dy -> dx, from the gradient of the (only) result to that of the input x; or one
  /// (dy, slot) which adds its share to the input's gradient in a form of its own.
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

  /// One pullback (dy, dx) for several inputs, for operations with several results or with shared
  /// work: dy[i] is the gradient of the i-th result, undefined where none arrived; dx is an array
  /// with the slot of each input, null where no gradient is needed (of a constant, or of a variable
  /// that backward was not asked for):
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
    if (!needed || !detail::recording_enabled) return *this;
    std::array<detail::Target, N> targets;
    for (std::size_t i = 0; i < N; ++i)
      targets[i] = {inputs[i].get().node(), inputs[i].get().output()};
    add(new detail::EdgeOf<N, std::decay_t<Pullback>>(std::move(targets),
                                                      std::forward<Pullback>(pullback)));
    return *this;
  }

  /// The only result, as in `return record(...).wrt(...)`, which ends the declaration.
  operator Var() {  // NOLINT
    check(0);
    return Var(std::move(values_[0]), std::move(node_), 0);
  }
  Var output(std::uint32_t i) const {
    check(i);
    return Var(values_[i], node_, i);
  }

 private:
  void add(detail::Edge* edge);
  void check(std::uint32_t i) const {
    if (detail::detects_anomaly()) [[unlikely]]
      detail::check_result(operation_, values_[i], inputs_);
  }

  const char* operation_;
  detail::PerOutput<Tensor> values_;
  detail::NodePointer node_;
  detail::Edge* last_ = nullptr;  // of the node's
  std::vector<Var> inputs_;       // known only while anomalies are looked for
};

/// Whether an operation on these inputs will be recorded for backward.
template <class... Vars>
bool recorded(const Vars&... inputs) {
  return detail::recording_enabled && (inputs.requires_gradient() || ...);
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
