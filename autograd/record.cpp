#include <attune/autograd/record.hpp>

namespace attune {

void* Recording::allocate_edge(std::size_t bytes, std::size_t alignment) {
  const std::span<const Tensor> values(values_.begin(), values_.size());
  if (!node_) node_ = detail::NodePointer(detail::Node::make(operation_, false, values, bytes));
  return node_->allocate_edge(bytes, alignment, used_);
}

}  // namespace attune
