#include <cmath>

#include <fmt/format.h>

#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::nn {

double global_norm(const Gradients& gradients) {
  double total = 0;
  for (const Tensor& gradient : gradients.all()) total += sum_of_squares(gradient);
  return std::sqrt(total);
}

double clip_by_global_norm(Gradients& gradients, double largest) {
  if (!(largest > 0))
    fail("clip_by_global_norm", fmt::format("the largest norm {} is not positive", largest));
  const double norm = global_norm(gradients);
  if (!std::isfinite(norm))
    fail("clip_by_global_norm", fmt::format("the norm of the gradients is {}", norm));
  if (norm <= largest) return norm;
  for (Tensor& gradient : gradients.all()) {
    if (!gradient.unique()) gradient = gradient.clone();  // somebody else holds it as it was
    scale_in_place(gradient, largest / norm);
  }
  return norm;
}

}  // namespace attune::nn
