#include <memory>

#include <attune/autograd/record.hpp>
#include <attune/tensor/errors.hpp>

namespace attune {
namespace {

/// Nodes of this thread whose last reference is gone, to be freed. Freeing a node may release
/// others: these are appended to this list, instead of being freed by recursion.
[[gnu::tls_model("initial-exec")]] thread_local constinit detail::Node* waiting = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool freeing = false;

detail::NodePointer make_node(const char* operation, bool is_leaf, std::span<const Tensor> values) {
  detail::NodePointer node(new detail::Node(operation, is_leaf, values.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    node->outputs[i] = {values[i].shape(), values[i].dtype()};
  return node;
}

}  // namespace

namespace detail {

Node::Node(const char* operation, bool is_leaf, std::size_t outputs)
    : id(observe()), operation(operation), is_leaf(is_leaf), outputs(outputs) {}

void Node::release_edges() {
  while (edges) delete std::exchange(edges, edges->next);
}

void destroy(Node* node) {
  node->next_waiting = std::exchange(waiting, node);
  if (freeing) return;
  freeing = true;
  while (Node* next = waiting) {
    waiting = next->next_waiting;
    delete next;
  }
  freeing = false;
}

}  // namespace detail

void Recording::add(detail::Edge* edge) {
  std::unique_ptr<detail::Edge> owned(edge);
  if (!node_) node_ = make_node(operation_, false, {values_.begin(), values_.size()});
  // Pullbacks run in the order of their declaration.
  (last_ ? last_->next : node_->edges) = owned.release();
  last_ = edge;
}

Var variable(Tensor value) {
  if (!value.defined() || !is_floating(value.dtype())) fail_not_floating("variable", value);
  detail::NodePointer node = make_node("variable", true, std::span(&value, 1));
  return Var(std::move(value), std::move(node), 0);
}

}  // namespace attune
