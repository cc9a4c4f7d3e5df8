// The graph behind Var: reference-counted nodes, and edges that carry the pullbacks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <attune/autograd/gradient_slot.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::detail {

inline thread_local constinit bool recording_enabled = true;

/// Most outputs that one operation may have, and most inputs of one joint pullback.
inline constexpr std::uint32_t max_outputs = 4;
inline constexpr std::size_t max_joint_inputs = 8;

/// Objects of the graph come from the cache of freed blocks.
struct Pooled {
  static void* operator new(std::size_t bytes) { return cache_allocate(bytes).memory; }
  static void operator delete(void* block, std::size_t bytes) noexcept {
    cache_free({block, bytes});
  }
};

struct Node;

/// A counted reference to a Node. Releasing the last one frees the history behind it without
/// recursion, however long it is.
class NodePointer {
 public:
  NodePointer() = default;
  explicit NodePointer(Node* adopted) : node_(adopted) {}
  NodePointer(const NodePointer& other);
  NodePointer(NodePointer&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePointer& operator=(NodePointer other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePointer() {
    if (node_) drop();
  }

  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node* release() { return std::exchange(node_, nullptr); }
  explicit operator bool() const { return node_ != nullptr; }

 private:
  void drop();

  Node* node_ = nullptr;
};

/// An input of an operation: which output of which node.
struct Target {
  NodePointer node;
  std::uint32_t output = 0;
};

/// One pullback and the inputs it serves. A target without node needs no gradient.
struct Edge : Pooled {
  Edge* next = nullptr;
  virtual ~Edge() = default;
  virtual std::span<Target> targets() = 0;
  /// dy: one gradient for each output of the operation, undefined where none arrived.
  /// dx: one slot for each target, null where none is needed.
  virtual void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) = 0;
};

template <std::size_t N, class Pullback>
struct EdgeOf final : Edge {
  EdgeOf(std::array<Target, N> inputs, Pullback f)
      : inputs(std::move(inputs)), pullback(std::move(f)) {}
  std::span<Target> targets() override { return inputs; }
  void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) override {
    pullback(dy, dx);
  }

  std::array<Target, N> inputs;
  Pullback pullback;
};

/// Gradients on their way to a node's outputs, during backward. Most nodes have one.
class NodeGradients : public Pooled {
 public:
  explicit NodeGradients(std::uint32_t outputs) {
    if (outputs > 1) others_ = std::make_unique<GradientSlot[]>(outputs - 1);
  }
  GradientSlot& operator[](std::uint32_t output) {
    return output == 0 ? first_ : others_[output - 1];
  }

 private:
  GradientSlot first_;
  std::unique_ptr<GradientSlot[]> others_;
};

/// An operation that was recorded, or a variable.
struct Node : Pooled {
  Node(const char* operation, bool is_leaf);
  ~Node();
  /// Frees the pullbacks and their captures.
  void release_edges();

  std::atomic<std::uint32_t> references{1};
  std::uint32_t output_count = 0;
  std::uint64_t id;           // in the order of creation: inputs come before what uses them
  std::uint64_t recorded_at;  // on the modification clock
  const char* operation;
  bool is_leaf;
  bool walked = false;  // backward came by and freed the pullbacks
  Edge* edges = nullptr;
  NodeGradients* gradients = nullptr;
  Node* next_waiting = nullptr;  // to be freed
  struct Output {
    Shape shape;
    DType dtype;
  };
  std::array<Output, max_outputs> outputs;
};

}  // namespace attune::detail
