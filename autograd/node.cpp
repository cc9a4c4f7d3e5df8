#include <attune/autograd/node.hpp>

namespace attune::detail {
namespace {

/// Nodes whose last reference has gone, waiting to be freed: freeing one may release others, which
/// join the list instead of being freed on the stack of the first. They are freed by the thread
/// that released them, so the list is its own.
[[gnu::tls_model("initial-exec")]] thread_local constinit Node* waiting = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool freeing = false;

}  // namespace

Node::Node(const char* operation, bool is_leaf, std::size_t outputs)
    : id(observe()), operation(operation), is_leaf(is_leaf), outputs(outputs) {}

Node::~Node() { release_edges(); }

void Node::release_edges() {
  while (edges) delete std::exchange(edges, edges->next);
}

void NodePointer::drop() {
  if (!drop_reference(node_->references)) return;
  node_->next_waiting = std::exchange(waiting, node_);
  if (freeing) return;
  freeing = true;
  while (Node* node = waiting) {
    waiting = node->next_waiting;
    delete node;
  }
  freeing = false;
}

}  // namespace attune::detail
