// The graph behind Var: reference-counted nodes, and edges that carry the pullbacks.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <attune/autograd/gradient_slot.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::detail {

[[gnu::tls_model("initial-exec")]] inline thread_local constinit bool recording_enabled = true;

/// Most inputs of one joint pullback.
inline constexpr std::size_t max_joint_inputs = 8;

/// Objects of the graph come from the cache of freed blocks.
struct Pooled {
  static void* operator new(std::size_t bytes) {
    return cache_allocate(bytes, Fit::own_class).memory;
  }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    cache_free(memory, bytes);
  }
};

struct Node;

/// Frees the history behind a node without recursion, however long it is.
void destroy(Node* node);
using NodePointer = Counted<Node>;

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
  template <class F>
  EdgeOf(std::array<Target, N>&& from, F&& f)
      : inputs(std::move(from)), pullback(std::forward<F>(f)) {}
  std::span<Target> targets() override { return inputs; }
  void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) override {
    std::array<GradientSlot*, N> slots;
    std::copy_n(dx.begin(), N, slots.begin());
    pullback(dy, slots);
  }

  std::array<Target, N> inputs;
  Pullback pullback;
};

/// One T for each output of an operation; a single one is stored inline.
template <class T>
class PerOutput {
 public:
  explicit PerOutput(std::size_t count) : count_(count) {
    if (count > 1) several_.resize(count);
  }
  std::size_t size() const { return count_; }
  T* begin() { return count_ > 1 ? several_.data() : &one_; }
  const T* begin() const { return count_ > 1 ? several_.data() : &one_; }
  T* end() { return begin() + count_; }
  T& operator[](std::size_t output) { return begin()[output]; }
  const T& operator[](std::size_t output) const { return begin()[output]; }

 private:
  std::size_t count_;
  T one_;
  std::vector<T> several_;
};

/// Gradients on their way to a node's outputs, during backward.
struct NodeGradients : Pooled, PerOutput<GradientSlot> {
  using PerOutput::PerOutput;
};

/// An operation that was recorded, or a variable.
struct Node : Pooled {
  Node(const char* operation, bool is_leaf, std::size_t outputs);
  ~Node() { release_edges(); }
  /// Frees the pullbacks and their captures.
  void release_edges();

  std::atomic<std::uint32_t> references{1};
  // When it was made, on the modification clock. Inputs come before what uses them: who uses a node
  // of another thread was given it before, and therefore draws a larger number.
  std::uint64_t id;
  const char* operation;
  bool is_leaf;
  bool walked = false;  // backward has run; the pullbacks are freed
  Edge* edges = nullptr;
  NodeGradients* gradients = nullptr;
  Node* next_waiting = nullptr;  // to be freed
  struct Output {
    Shape shape;
    DType dtype = DType::f32;
  };
  PerOutput<Output> outputs;
};

}  // namespace attune::detail
