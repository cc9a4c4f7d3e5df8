#include <attune/autograd/record.hpp>
#include <attune/tensor/fail.hpp>

namespace attune {

void detail::fail_output(const char* operation, std::size_t output, std::size_t outputs) {
  fail(operation, "there is no result {}: it has {}", output, outputs);
}

void* Recording::room_in_node(std::size_t bytes, std::size_t alignment) {
  const std::span<const Tensor> values(values_.begin(), values_.size());
  if (!node_) node_ = detail::NodePointer(detail::Node::make(operation_, false, values, bytes));
  return node_->room(bytes, alignment, used_);
}

}  // namespace attune
