// Where the gradient of one value adds up while backward walks.
#pragma once

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

}  // namespace attune
