// The graph behind Var: reference-counted nodes, edges with the pullbacks, and the slots that
// accumulate gradients during backward.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

class Var;

/// Accumulates the gradient dx of one value x from all its uses: SlotOf<Tensor> in backward, and
/// SlotOf<Var> (record.hpp) in grad, which records the sum.
template <class V>
class SlotOf;
using GradientSlot = SlotOf<Tensor>;

/// A pullback adds its contribution in whichever form is cheapest. The first contribution is stored
/// without a copy. Later ones are added in place if no other Tensor shares the elements.
template <>
class SlotOf<Tensor> {
 public:
  /// dx += gradient, a tensor of x's shape.
  void add(Tensor gradient);

  /// dx[:, column : column + N] += aᵀ·b for a (..., K), b (..., N), leading axes folded: the
  /// gradient of a weight x with input a. Deferred: a weight that is used at every step of a
  /// recurrence gets its gradient from one product over all steps, instead of many thin ones.
  void add_product(Tensor a, Tensor b, Integer column = 0);

  /// dx[begin : begin + n] += gradient along the axis, of extent n.
  void add_slice(const Tensor& gradient, Integer axis, Integer begin);

  /// The sum so far (zeros at first), for kernels that add to it in place.
  Tensor& accumulator() &;

  /// The sum so far, without deferred products. Undefined before the first contribution.
  Tensor sum() const { return sum_; }

  /// The shape of x.
  const Shape& shape() const& { return shape_; }

  /// Used by backward only: `begin` is called first, `finish` last. `finish` returns the gradient.
  void begin(const Shape& shape, DType dtype) { shape_ = shape, dtype_ = dtype; }
  Tensor finish();

 private:
  struct Product {
    Tensor a, b;
    Index column;
    detail::PullbackContext context;  // of the pullback that captured a and b
  };
  void multiply_out(const Tensor& a, const Tensor& b, Index column);
  void multiply_out(std::span<const Product> products);

  Tensor sum_;
  std::vector<Product> products_;
  Shape shape_;
  DType dtype_ = DType::f32;
};

namespace detail {

/// Maximum number of inputs of a joint pullback.
inline constexpr std::size_t max_joint_inputs = 8;

/// Base of edges and gradients: allocates them from the cache of freed blocks.
struct CacheAllocated {
  static void* operator new(std::size_t bytes) {
    return cache_allocate(bytes, Fit::own_class).memory;
  }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    cache_free(memory, bytes);
  }
};

struct Node;

/// Frees a node and the history behind it, without recursion, as histories can be long.
void destroy(Node* node);
using NodePointer = IntrusivePtr<Node>;

/// Identifies an input of an operation: output number `output` of a node.
struct Target {
  NodePointer node;
  std::uint8_t output = 0;
};

/// One pullback and its inputs. A target whose node is null needs no gradient.
struct Edge : CacheAllocated {
  Edge* next = nullptr;
  virtual ~Edge() = default;
  virtual std::span<Target> targets() = 0;
  /// Runs the pullback. dy: the gradient of each output of the operation, undefined if it got none.
  /// dx: the slot of each target, null if it needs no gradient.
  virtual void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) = 0;
  /// The same with history, for `node`, the operation. Throws if the pullback takes only Tensors.
  virtual void record(const NodePointer& node, std::span<const Var> dy,
                      std::span<SlotOf<Var>* const> dx) = 0;
};

/// One T for each output of an operation; stored inline if there is only one output.
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

/// The gradients of a node's outputs while backward accumulates them.
struct NodeGradients : CacheAllocated, PerOutput<GradientSlot> {
  using PerOutput::PerOutput;
  const void* walk = nullptr;  // the backward that accumulates them
};

/// A recorded operation, or a variable (is_leaf). One block of memory holds the node, the shapes of
/// its results, and as many edges as fit into the rest: a graph of many tiny operations is limited
/// by the time to fetch it from memory.
struct Node {
  struct Output {
    [[no_unique_address]] Shape shape;
    DType dtype = DType::f32;
  };

  /// `values`: the results, whose shapes and dtypes the node keeps; throws if there are more than 255.
  /// `edge`: bytes of the first edge.
  static Node* make(const char* operation, bool is_leaf, std::span<const Tensor> values,
                    std::size_t edge);

  Output& output(std::size_t i) { return reinterpret_cast<Output*>(this + 1)[i]; }
  /// Frees the pullbacks and their captures.
  void release_edges();
  /// Memory for an edge in the node's block, behind the first `used` bytes; null if it does not fit.
  void* room(std::size_t bytes, std::size_t alignment, std::size_t& used);

  std::atomic<std::uint32_t> references{1};
  std::uint8_t lines;  // of 64 bytes in the block
  std::uint8_t output_count;
  bool is_leaf;
  bool walked = false;  // backward has run; the pullbacks are freed
  // The time of creation on the modification clock. Inputs have smaller ids than their users: a
  // thread receives a node of another thread before it uses it, so it draws a larger number.
  std::uint64_t id = observe();
  const char* operation;
  Edge* edges = nullptr;
  union {
    NodeGradients* gradients = nullptr;
    Node* next_waiting;  // in the list of nodes to be freed
  };
};

}  // namespace detail
}  // namespace attune
