// A tensor and how it was computed.
#pragma once

#include <attune/autograd/node.hpp>
#include <attune/tensor/print.hpp>

namespace attune {

/// A value in a differentiable expression: a Tensor and the history of how it was computed. Copies
/// share both. A Tensor converts to a constant Var. A history is kept alive by its Var and all Vars
/// computed from it, until backward walks it.
class Var {
 public:
  Var() = default;
  Var(const Var&) = default;
  Var(Var&&) = default;
  Var& operator=(const Var&) & =
      default;  // `x[t] = y` would change nothing, so it does not compile
  Var& operator=(Var&&) & = default;
  ~Var() = default;
  Var(Tensor value) : value_(std::move(value)) {}  // NOLINT: implicit conversion

  const Tensor& value() const& { return value_; }
  Tensor value() const&& { return value_; }
  bool defined() const { return value_.defined(); }
  const Shape& shape() const& { return value_.shape(); }
  Shape shape() const&& { return value_.shape(); }
  int rank() const { return value_.rank(); }
  Index dim(Integer axis) const { return value_.dim(axis); }
  Index size() const { return value_.size(); }
  DType dtype() const { return value_.dtype(); }
  double item() const { return value_.item(); }

  /// True if the value depends on a variable, so that backward can compute gradients.
  bool requires_gradient() const { return static_cast<bool>(node_); }

  /// Index t of axis 0, whose shape lacks that axis; see `slice` in ops.hpp.
  Var operator[](Integer t) const;

  /// For the implementation of operations: the value as output number `output` of a node.
  Var(Tensor value, detail::NodePointer node, std::uint8_t output)
      : value_(std::move(value)), output_(output), node_(std::move(node)) {}
  detail::NodePointer node() const { return node_; }
  std::uint8_t output() const { return output_; }

 private:
  [[no_unique_address]] Tensor value_;
  std::uint8_t output_ = 0;
  detail::NodePointer node_;
};

/// Prints the value as a Tensor.
inline std::ostream& operator<<(std::ostream& out, const Var& x) { return out << x.value(); }

/// A variable: a leaf that gets a gradient, such as a parameter. Shares the elements of `value`, so
/// an optimiser's step changes them. Throws unless it is f32 or f64.
Var variable(Tensor value);

/// The value as a constant, without history.
inline Var detach(const Var& x) { return x.value(); }

/// Disables recording in this thread, and in the tiles of its parallel_for, until the end of the
/// scope.
struct NoGrad : detail::ScopedValue<bool> {
  [[nodiscard]] NoGrad() : ScopedValue(detail::thread_state.records_history, false) {}
};

}  // namespace attune
