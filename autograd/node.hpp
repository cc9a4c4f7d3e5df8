// The graph behind Var: reference-counted nodes, edges that carry the pullbacks, and the slots in
// which gradients add up during backward.
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

/// The gradient of one value, from all its uses. A pullback adds its share in whichever form is
/// cheapest; the first share is taken as it is, and later ones are added in place where nobody else
/// holds the elements.
class GradientSlot {
 public:
  /// dx += gradient, a tensor of x's shape.
  void add(Tensor gradient);

  /// dx[:, column : column + N] += aᵀ·b for a (..., K), b (..., N), leading axes folded: x is a
  /// weight and a its input. The product is deferred: a weight that is used at every step of a
  /// recurrence gets its gradient from one product over all steps, not from many thin ones.
  void add_product(Tensor a, Tensor b, Index column = 0);

  /// The sum so far (zeros at first), for kernels that add to it themselves.
  Tensor& accumulator();

  /// The sum so far, without deferred products; undefined at first.
  const Tensor& sum() const { return sum_; }

  /// For the walk of backward: the first call and the last one, which returns the whole gradient.
  void begin(const Shape& shape, DType dtype) { shape_ = shape, dtype_ = dtype; }
  Tensor finish();

 private:
  struct Product {
    Tensor a, b;
    Index column;
    detail::PullbackContext context;  // whose captures a and b are
  };
  void multiply_out(const Tensor& a, const Tensor& b, Index column);
  void multiply_out(std::span<const Product> products);

  Tensor sum_;
  std::vector<Product> products_;
  Shape shape_;
  DType dtype_ = DType::f32;
};

namespace detail {

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

}  // namespace detail
}  // namespace attune
