#include <attune/autograd/node.hpp>

namespace attune::detail {
namespace {

/// Relaxed, as is the modification clock: who uses a node of another thread was given it before,
/// and therefore draws a larger number.
std::atomic<std::uint64_t> next_id{0};

/// Nodes whose last reference has gone, waiting to be freed: freeing one may release others, which
/// join the list instead of being freed on the stack of the first. They are freed by the thread
/// that released them, so the list is its own.
thread_local constinit Node* waiting = nullptr;
thread_local constinit bool freeing = false;

}  // namespace

Node::Node(const char* operation, bool is_leaf, std::size_t outputs)
    : id(fetch_add(next_id, std::uint64_t{1})),
      recorded_at(modification_clock.load(std::memory_order_relaxed)),
      operation(operation),
      is_leaf(is_leaf),
      outputs(outputs) {}

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
