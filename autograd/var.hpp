// A tensor and how it was computed.
#pragma once

#include <attune/autograd/node.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// A value in an expression whose gradient may be asked for. Copies share the value and its
/// history. A Tensor converts to a constant Var. The history of a Var is alive as long as the Var
/// is, or anything computed from it, and until backward has walked it.
class Var {
 public:
  Var() = default;
  Var(const Var&) = default;
  Var(Var&&) = default;
  Var& operator=(const Var&) & =
      default;  // `x[t] = y` would change nothing, so it does not compile
  Var& operator=(Var&&) & = default;
  ~Var() = default;
  Var(Tensor value) : value_(std::move(value)) {}  // NOLINT: a constant is a value, implicitly

  const Tensor& value() const { return value_; }
  bool defined() const { return value_.defined(); }
  const Shape& shape() const { return value_.shape(); }
  int rank() const { return value_.rank(); }
  Index dim(int axis) const { return value_.dim(axis); }
  Index size() const { return value_.size(); }
  DType dtype() const { return value_.dtype(); }
  double item() const { return value_.item(); }

  /// Whether backward can reach a variable from here.
  bool requires_gradient() const { return static_cast<bool>(node_); }

  /// Row t of the outermost axis; see `slice` in ops.hpp.
  Var operator[](Index t) const;

  /// For declaring operations: the value as an output of a node.
  Var(Tensor value, detail::NodePointer node, std::uint32_t output)
      : value_(std::move(value)), node_(std::move(node)), output_(output) {}
  const detail::NodePointer& node() const { return node_; }
  std::uint32_t output() const { return output_; }

 private:
  Tensor value_;
  detail::NodePointer node_;
  std::uint32_t output_ = 0;
};

/// The value's elements, as a Tensor shows them.
inline std::ostream& operator<<(std::ostream& out, const Var& x) { return out << x.value(); }

/// A value to differentiate with respect to: a leaf, such as a parameter. Throws unless floating.
Var variable(Tensor value);

/// The value without its history: a constant.
inline Var detach(const Var& x) { return x.value(); }

/// While one lives, nothing is recorded in this thread.
struct NoGrad : detail::Restored<bool> {
  [[nodiscard]] NoGrad() : Restored(detail::recording_enabled, false) {}
};

}  // namespace attune
