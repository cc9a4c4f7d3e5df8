#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/autograd/var.hpp>
#include <attune/tensor/arrange.hpp>

namespace attune {

Var Var::operator[](Integer t) const {
  const Tensor row = value()[t];
  if (t < 0) t = t + dim(0);
  return record("slice", row).wrt(*this, [t]<class V>(const V& dy, SlotOf<V>& dx) {
    dx.add_slice(reshape(dy, dy.shape().inserted(0, 1)), 0, t);
  });
}

Var variable(Tensor value) {
  if (!value.defined() || !is_floating(value.dtype())) fail_not_floating("variable", value);
  detail::NodePointer node(detail::Node::make("variable", true, std::span(&value, 1), 0));
  return Var(std::move(value), std::move(node), 0);
}

}  // namespace attune
