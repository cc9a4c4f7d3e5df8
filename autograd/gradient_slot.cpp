#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/gradient_slot.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/product_sizes.hpp>

namespace attune {
namespace {

Tensor as_matrix(const Tensor& x) {
  return x.rank() == 2 ? x : x.reshape({x.shape().product(0, x.rank() - 1), x.dim(-1)});
}

}  // namespace

void GradientSlot::add(Tensor gradient) {
  if (!gradient.defined() || gradient.shape() != shape_ || gradient.dtype() != dtype_) {
    fail(fmt::format("backward of {}", detail::pullback_context.operation),
         fmt::format(
             "the gradient of an input {} {} came out as {}", name_of(dtype_), to_string(shape_),
             gradient.defined()
                 ? fmt::format("{} {}", name_of(gradient.dtype()), to_string(gradient.shape()))
                 : "undefined"));
  }
  if (!sum_.defined()) {
    sum_ = std::move(gradient);
  } else if (sum_.unique()) {
    add_in_place(sum_, gradient);
  } else if (gradient.unique()) {
    add_in_place(gradient, sum_);
    sum_ = std::move(gradient);
  } else {
    sum_ = sum_ + gradient;
  }
}

Tensor& GradientSlot::accumulator() {
  if (!sum_.defined()) {
    sum_ = zeros(shape_, dtype_);
  } else if (!sum_.unique()) {
    sum_ = sum_.clone();
  }
  return sum_;
}

void GradientSlot::add_product(Tensor a, Tensor b, Index column) {
  Product product{as_matrix(a), as_matrix(b), column, detail::pullback_context};
  if (product.a.dim(0) >= detail::sizes::enough_gradient_rows)
    return multiply_out(std::span(&product, 1));
  products_.push_back(std::move(product));
}

/// sum += aᵀ·b
void GradientSlot::multiply_out(const Tensor& a, const Tensor& b, Index column) {
  if (!sum_.defined() && shape_ == Shape{a.dim(1), b.dim(1)}) {
    // The first share is the sum: this saves clearing and reading an accumulator.
    sum_ = matmul(a, b, {.a = true}, Rows::together);
  } else {
    attune::add_product(a, b, accumulator(), column);
  }
}

/// One product over the stacked rows of several.
void GradientSlot::multiply_out(std::span<const Product> products) {
  std::vector<Tensor> a, b;
  for (const Product& product : products) {
    // Reads are checked as in that pullback.
    const detail::Restored scope(detail::pullback_context, product.context);
    if (products.size() == 1) return multiply_out(product.a, product.b, product.column);
    bytes_of(product.a);
    a.push_back(product.a);
    b.push_back(product.b);
  }
  multiply_out(concat(a, 0), concat(b, 0), products.front().column);
}

Tensor GradientSlot::finish() {
  if (products_.empty()) return std::move(sum_);
  std::vector<Product> products = std::exchange(products_, {});
  const char* const operation = products.front().context.operation;
  // In groups of the same columns, in the order they came.
  const auto columns = [](const Product& p) { return std::pair(p.column, p.b.dim(1)); };
  if (!std::ranges::is_sorted(products, {}, columns)) {
    std::ranges::stable_sort(products, {}, columns);
  }
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
