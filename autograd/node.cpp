#include <attune/autograd/node.hpp>

namespace attune::detail {
namespace {

std::atomic<std::uint64_t> next_id{0};

/// Nodes whose last reference has gone, waiting to be freed: freeing one may release others, which
/// join the list instead of being freed on the stack of the first.
thread_local constinit Node* waiting = nullptr;
thread_local constinit bool freeing = false;

}  // namespace

Node::Node(const char* operation, bool is_leaf)
    : id(next_id.fetch_add(1, std::memory_order_relaxed)),
      recorded_at(modification_clock.load(std::memory_order_relaxed)),
      operation(operation),
      is_leaf(is_leaf) {}

Node::~Node() { release_edges(); }

void Node::release_edges() {
  while (edges) delete std::exchange(edges, edges->next);
}

NodePointer::NodePointer(const NodePointer& other) : node_(other.node_) {
  if (node_) node_->references.fetch_add(1, std::memory_order_relaxed);
}

void NodePointer::drop() {
  if (node_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
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
