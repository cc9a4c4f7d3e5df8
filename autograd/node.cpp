#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/node.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/product_sizes.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/matmul.hpp>

namespace attune {
namespace {

/// Nodes of this thread whose last reference is gone, to be freed. Freeing a node may release
/// others: these are appended to this list, instead of being freed by recursion.
[[gnu::tls_model("initial-exec")]] thread_local constinit detail::Node* waiting = nullptr;
[[gnu::tls_model("initial-exec")]] thread_local constinit bool freeing = false;

/// Throws if the current pullback captured x, and x was modified since.
void require_unmodified(const Tensor& x) { static_cast<void>(bytes_of(x)); }

Tensor as_matrix(const Tensor& x) {
  return x.rank() == 2 ? x : x.reshape({x.shape().product(0, x.rank() - 1), x.dim(-1)});
}

/// a (M, K), with 0 in rows that are not finite and whose row of b (M, N) is 0: `where` discarded
/// these rows, and they add nothing to aᵀ·b, although 0 · NaN is NaN.
Tensor without_discarded(const Tensor& a, const Tensor& b) {
  const Index k = a.dim(1), n = b.dim(1);
  Tensor kept = a;
  visit_elements("matmul", std::tie(a, b), [&](const auto* x, const auto* dy) {
    for (Index i = 0; i < a.dim(0); ++i) {
      if (!detail::is_zero(dy + i * n, n) || std::isfinite(simd::sum_of_squares(x + i * k, k)))
        continue;
      if (kept.shares_buffer_with(a)) kept = a.clone();
      Tensor row = kept[i];
      fill(row, 0);
    }
  });
  return kept;
}

}  // namespace

namespace detail {

Node* Node::make(const char* operation, bool is_leaf, std::span<const Tensor> values,
                 std::size_t edge) {
  // Two edges that capture a Var each fit into 320 bytes.
  constexpr std::size_t line = 64, least = 320, most = 16 * line;
  if (values.size() > 255)
    fail(operation, "{} results were recorded: at most 255 can be", values.size());
  const std::size_t own = sizeof(Node) + values.size() * sizeof(Output);
  const std::size_t bytes = is_leaf ? own : std::max(least, own + edge <= most ? own + edge : own);
  const std::size_t lines = (bytes + line - 1) / line;
  Node* const node = new (cache_allocate(lines * line, Fit::own_class).memory) Node;
  node->lines = static_cast<std::uint8_t>(lines);
  node->output_count = static_cast<std::uint8_t>(values.size());
  node->is_leaf = is_leaf;
  node->operation = operation;
  for (std::size_t i = 0; i < values.size(); ++i)
    new (&node->output(i)) Output{values[i].shape(), values[i].dtype()};
  return node;
}

void* Node::room(std::size_t bytes, std::size_t alignment, std::size_t& used) {
  if (used == 0) used = sizeof(Node) + output_count * sizeof(Output);
  const std::size_t begin = (used + alignment - 1) / alignment * alignment;
  if (begin + bytes > std::size_t{64} * lines) return nullptr;
  used = begin + bytes;
  return reinterpret_cast<std::byte*>(this) + begin;
}

void Node::release_edges() {
  const auto begin = reinterpret_cast<std::uintptr_t>(this);
  while (edges) {
    Edge* const edge = std::exchange(edges, edges->next);
    const bool in_block = reinterpret_cast<std::uintptr_t>(edge) - begin < std::size_t{64} * lines;
    in_block ? edge->~Edge() : delete edge;
  }
}

void destroy(Node* node) {
  node->next_waiting = std::exchange(waiting, node);
  if (freeing) return;
  freeing = true;
  while (Node* next = waiting) {
    waiting = next->next_waiting;
    next->release_edges();
    cache_free(next, std::size_t{64} * next->lines);
  }
  freeing = false;
}

}  // namespace detail

void GradientSlot::add(Tensor gradient) {
  if (!gradient.defined() || gradient.shape() != shape_ || gradient.dtype() != dtype_)
    fail(fmt::format("backward of {}", detail::thread_state.pullback.operation),
         "the gradient of an input must be {} {}, but the pullback returned {}", name_of(dtype_),
         shape_, describe(gradient));
  require_unmodified(gradient);
  if (!sum_.defined()) return static_cast<void>(sum_ = std::move(gradient));
  if (!sum_.unique() && gradient.unique()) std::swap(sum_, gradient);
  add_in_place(accumulator(), gradient);
}

void GradientSlot::add_slice(const Tensor& gradient, Integer axis, Integer begin) {
  add_to_slice(accumulator(), gradient, axis, begin);
}

Tensor& GradientSlot::accumulator() & {
  if (!sum_.defined()) {
    sum_ = zeros(shape_, dtype_);
  } else if (!sum_.unique()) {
    sum_ = sum_.clone();
  }
  detail::buffer_of(sum_).created_at = detail::write_stamp();  // no pullback has captured the sum
  return sum_;
}

void GradientSlot::add_product(Tensor a, Tensor b, Integer column) {
  Product product{as_matrix(a), as_matrix(b), column, detail::thread_state.pullback};
  if (product.a.dim(0) >= detail::sizes::enough_gradient_rows)
    return multiply_out(std::span(&product, 1));
  products_.push_back(std::move(product));
}

/// sum += aᵀ·b
void GradientSlot::multiply_out(const Tensor& left, const Tensor& right, Index column) {
  const Tensor a = without_discarded(left, right), b = without_discarded(right, left);
  if (!sum_.defined() && shape_ == Shape{a.dim(1), b.dim(1)}) {
    // The first product becomes the sum: this saves clearing and reading an accumulator.
    sum_ = matmul(a, b, {.a = true});
  } else {
    attune::add_product(a, b, accumulator(), column);
  }
}

/// One product over the concatenated rows of several products.
void GradientSlot::multiply_out(std::span<const Product> products) {
  std::vector<Tensor> a, b;
  for (const Product& product : products) {
    // Checks reads as in the pullback that captured the tensors.
    const detail::ScopedValue scope(detail::thread_state.pullback, product.context);
    if (products.size() == 1) return multiply_out(product.a, product.b, product.column);
    require_unmodified(product.a), require_unmodified(product.b);
    a.push_back(product.a);
    b.push_back(product.b);
  }
  const detail::ScopedValue checked(detail::thread_state.pullback, detail::PullbackContext());
  multiply_out(concat(a, 0), concat(b, 0), products.front().column);
}

Tensor GradientSlot::finish() {
  if (products_.empty()) return std::move(sum_);
  std::vector<Product> products = std::exchange(products_, {});
  const char* const operation = products.front().context.operation;
  // Groups of consecutive products with the same columns.
  const auto columns = [](const Product& p) { return std::pair(p.column, p.b.dim(1)); };
  if (!std::ranges::is_sorted(products, {}, columns))
    std::ranges::stable_sort(products, {}, columns);
  for (std::size_t begin = 0, end; begin < products.size(); begin = end) {
    end = begin + 1;
    while (end < products.size() && columns(products[end]) == columns(products[begin])) ++end;
    multiply_out(std::span(products).subspan(begin, end - begin));
  }
  if (detail::detects_anomaly()) [[unlikely]]
    detail::check_gradient(operation, sum_);
  return std::move(sum_);
}

}  // namespace attune
