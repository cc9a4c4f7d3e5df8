#include <memory>

#include <attune/autograd/record.hpp>

namespace attune {

void Recording::add(detail::Edge* edge) {
  std::unique_ptr<detail::Edge> owned(edge);
  const std::span<const Tensor> values(values_.begin(), values_.size());
  if (!node_) node_ = detail::NodePointer(new detail::Node(operation_, false, values));
  // Pullbacks run in the order of their declaration.
  (last_ ? last_->next : node_->edges) = owned.release();
  last_ = edge;
}

}  // namespace attune
