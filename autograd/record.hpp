// Declares a differentiable operation: its value, and a pullback for each input.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <variant>
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

/// Accumulates the gradient of one value in grad.
template <>
class SlotOf<Var> {
 public:
  explicit SlotOf(const Shape& shape) : shape_(shape) {}
  const Shape& shape() const& { return shape_; }
  void add(const Var& gradient);
  /// As SlotOf<Tensor>::add_product.
  void add_product(const Var& a, const Var& b, Integer column = 0);
  /// As SlotOf<Tensor>::add_slice. Deferred: the gradients of all steps x[t] become one tensor,
  /// instead of one of x's shape for each step.
  void add_slice(const Var& gradient, Integer axis, Integer begin);
  /// The sum so far; undefined before the first contribution.
  Var sum();

 private:
  struct Slice {
    Var gradient;
    int axis;
    Index begin;
  };

  Var sum_;
  std::vector<Slice> slices_;  // not yet in sum_
  Shape shape_;
};

/// A captured input in a pullback on V: its value in backward, and with its history in grad.
template <Value V>
const V& captured(const Var& x) {
  if constexpr (std::is_same_v<V, Tensor>) {
    return x.value();
  } else {
    return x;
  }
}

namespace detail {

inline const Tensor& value_of(const Tensor& x) { return x; }
inline const Tensor& value_of(const Var& x) { return x.value(); }

/// x, with 0 in its rows along the axis that are not finite and have the gradient dy = 0: `where`
/// discarded these rows.
Var without_discarded(const Var& x, const Var& dy, Integer axis);

[[noreturn]] void fail_first_order(const char* operation);
[[noreturn]] void fail_output(const char* operation, std::size_t output, std::size_t outputs);

/// True for a pullback (dy, y) -> dx that uses the result y.
template <class F>
inline constexpr bool uses_result = std::is_invocable_v<F&, const Tensor&, const Tensor&>;

/// A pullback of one input, for an operation with one result.
template <class F>
struct SinglePullback {
  F f;
  [[no_unique_address]] std::conditional_t<uses_result<F>, Tensor, std::monostate> y;

  void operator()(std::span<const Tensor> dy, std::array<GradientSlot*, 1> dx) {
    if constexpr (std::is_invocable_v<F&, const Tensor&, GradientSlot&>) {
      f(dy[0], *dx[0]);
    } else if constexpr (uses_result<F>) {
      dx[0]->add(value_of(f(dy[0], y)));
    } else {
      dx[0]->add(value_of(f(dy[0])));
    }
  }
  void operator()([[maybe_unused]] const NodePointer& node, std::span<const Target>,
                  std::span<const Var> dy, std::array<SlotOf<Var>*, 1> dx) {
    if constexpr (std::is_invocable_v<F&, const Var&, SlotOf<Var>&>) {
      f(dy[0], *dx[0]);
    } else if constexpr (std::is_invocable_v<F&, const Var&, const Var&>) {
      dx[0]->add(f(dy[0], Var(y, node, 0)));
    } else if constexpr (std::is_invocable_v<F&, const Var&>) {
      dx[0]->add(f(dy[0]));
    } else {
      fail_first_order(node->operation);
    }
  }
};

/// Adds the gradients of `definition`, applied to the inputs, to dx.
void record_definition(std::span<const Target> inputs, std::span<const Tensor> values,
                       const std::function<std::vector<Var>(std::span<const Var>)>& definition,
                       std::span<const Var> dy, std::span<SlotOf<Var>* const> dx);

/// A pullback of N inputs of first order only.
template <std::size_t N, class F>
struct JointPullback {
  F f;

  void operator()(std::span<const Tensor> dy, const std::array<GradientSlot*, N>& dx) { f(dy, dx); }
  void operator()(const NodePointer& node, std::span<const Target>, std::span<const Var>,
                  const std::array<SlotOf<Var>*, N>&) {
    fail_first_order(node->operation);
  }
};

/// A pullback of N inputs, and the operation as a function of them composed of other operations.
template <std::size_t N, class F, class Definition>
struct DefinedPullback {
  F f;
  Definition definition;
  std::array<Tensor, N> values;

  void operator()(std::span<const Tensor> dy, const std::array<GradientSlot*, N>& dx) {
    f(std::as_const(values), dy, dx);
  }
  void operator()(const NodePointer&, std::span<const Target> inputs, std::span<const Var> dy,
                  const std::array<SlotOf<Var>*, N>& dx) {
    record_definition(inputs, values, definition, dy, dx);
  }
};

template <std::size_t N, class Pullback>
struct EdgeOf final : Edge {
  EdgeOf(std::array<Target, N>&& from, Pullback&& f)
      : inputs(std::move(from)), pullback(std::move(f)) {}
  std::span<Target> targets() override { return inputs; }
  void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) override {
    pullback(dy, first_slots(dx));
  }
  void record(const NodePointer& node, std::span<const Var> dy,
              std::span<SlotOf<Var>* const> dx) override {
    pullback(node, inputs, dy, first_slots(dx));
  }
  template <class Slot>
  static std::array<Slot*, N> first_slots(std::span<Slot* const> dx) {
    std::array<Slot*, N> first;
    std::copy_n(dx.begin(), N, first.begin());
    return first;
  }

  std::array<Target, N> inputs;
  Pullback pullback;
};

}  // namespace detail

/// An operation being declared. It converts to the resulting Var. It is a temporary: `Var y = ...`,
/// not `auto&& y = ...`.
///
///     Var softplus(const Var& x) {
///       return record("softplus", softplus(x.value())).wrt(x, [x](const Var& dy) {
///         return dy * sigmoid(x);
///       });
///     }
///
/// A pullback on Vars that captures its inputs as Vars, and computes with operations on Vars, can
/// itself be differentiated: `grad` records it, and `backward` runs it without history. A pullback
/// that takes `const Tensor& dy` and captures Tensors works in backward only. A template
/// `[x]<class V>(const V& dy) { ... captured<V>(x) ... }` runs on Tensors in backward, with the least
/// overhead, and on Vars in grad.
///
/// A pullback's captures stay alive until backward, so capture only what it needs. Never capture the
/// result Var, which would keep itself alive: take it as the second argument. If an input needs no
/// gradient, its pullback is dropped at once.
class Recording {
 public:
  Recording(OperationName operation, Tensor value) : operation_(operation), values_(1) {
    values_[0] = std::move(value);
  }
  Recording(OperationName operation, std::initializer_list<Tensor> values)
      : operation_(operation), values_(values.size()) {
    std::copy(values.begin(), values.end(), values_.begin());
  }

  /// Adds the pullback of input x: a function dy -> dx or (dy, y) -> dx, from the gradient of the
  /// (only) result y to the gradient of x, or a function (dy, slot) that adds its contribution to
  /// x's SlotOf.
  template <class Pullback>
  Recording& wrt(const Var& x, Pullback pullback) & {
    return connect<1>({x}, [&] {
      detail::SinglePullback<Pullback> single{std::move(pullback), {}};
      if constexpr (detail::uses_result<Pullback>) single.y = values_[0];
      return single;
    });
  }
  template <class Pullback>
  Recording&& wrt(const Var& x, Pullback pullback) && {
    return std::move(wrt(x, std::move(pullback)));
  }

  /// Adds one pullback (dy, dx) for several inputs: for operations with several results, or whose
  /// gradients share work. dy[i] is the gradient of the i-th result, undefined if it got none.
  /// dx[i] points to the GradientSlot of the i-th input, to which the pullback adds; it is null if
  /// the input needs no gradient (a constant, or a variable whose gradient was not requested):
  ///     .joint({q, k}, [](auto dy, const auto& dx) { const auto& [dq, dk] = dx; ... })
  template <std::size_t N, class Pullback>
  Recording& joint(const std::reference_wrapper<const Var> (&inputs)[N], Pullback&& pullback) {
    return connect<N>(inputs, [&] {
      return detail::JointPullback<N, std::decay_t<Pullback>>{std::forward<Pullback>(pullback)};
    });
  }
  /// The same with the definition of the operation, for grad: a function of the inputs, as a
  /// span<const Var>, that computes the vector of all results with other operations on Vars. The
  /// pullback is (x, dy, dx), where x are the values of the inputs, which need no captures.
  template <std::size_t N, class Pullback, class Definition>
  Recording& joint(const std::reference_wrapper<const Var> (&inputs)[N], Pullback&& pullback,
                   Definition definition) {
    return connect<N>(inputs, [&] {
      detail::DefinedPullback<N, std::decay_t<Pullback>, Definition> defined{
          std::forward<Pullback>(pullback), std::move(definition), {}};
      for (std::size_t i = 0; i < N; ++i) defined.values[i] = inputs[i].get().value();
      return defined;
    });
  }

  /// Converts an operation with one result to that result, as in `return record(...).wrt(...)`.
  operator Var() const& { return output(0); }  // NOLINT
  operator Var() && {                          // NOLINT
    check_output(0);
    return Var(std::move(values_[0]), std::move(node_), 0);
  }
  Var output(std::size_t i) const {
    if (i >= values_.size()) [[unlikely]]
      detail::fail_output(operation_, i, values_.size());
    check_output(static_cast<std::uint32_t>(i));
    return Var(values_[i], node_, static_cast<std::uint8_t>(i));
  }

 private:
  /// Adds an edge from these inputs with the pullback that `make` returns, if one needs a gradient.
  template <std::size_t N, class Make>
  Recording& connect(const std::reference_wrapper<const Var> (&inputs)[N], Make make) {
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
    auto pullback = make();
    using Edge = detail::EdgeOf<N, decltype(pullback)>;
    void* const room = room_in_node(sizeof(Edge), alignof(Edge));
    add(room ? ::new (room) Edge(std::move(targets), std::move(pullback))
             : new Edge(std::move(targets), std::move(pullback)));
    return *this;
  }
  void* room_in_node(std::size_t bytes, std::size_t alignment);
  void add(detail::Edge* edge) {  // pullbacks run in the order of their declaration
    (last_ ? last_->next : node_->edges) = edge;
    last_ = edge;
  }
  void check_output(std::uint32_t i) const {
    if (detail::detects_anomaly()) [[unlikely]]
      detail::check_result(operation_, values_[i], inputs_);
  }

  const char* operation_;
  detail::PerOutput<Tensor> values_;
  detail::NodePointer node_;
  detail::Edge* last_ = nullptr;  // last edge of the node
  std::size_t used_ = 0;          // bytes of the node's block
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
