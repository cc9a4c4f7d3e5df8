#include <cmath>

#include <fmt/format.h>

#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::nn {

namespace {

[[noreturn]] void fail_norm(const Gradients& gradients, double norm) {
  std::string first;
  for (const Tensor& gradient : gradients.all()) {
    if (first.empty()) first = attune::first_not_finite(gradient);
  }
  fail("clip_by_global_norm", fmt::format("the norm of the gradients is {}{}{}", norm,
                                          first.empty() ? "" : ": gradient of a variable ", first));
}

}  // namespace

double clip_by_global_norm(Gradients& gradients, double largest) {
  if (!(largest > 0))
    fail("clip_by_global_norm", fmt::format("the largest norm {} is not positive", largest));
  const double norm = gradients.global_norm();
  if (!std::isfinite(norm)) fail_norm(gradients, norm);
  if (norm > largest) gradients.scale(largest / norm);
  return norm;
}

std::string first_not_finite(const Parameters& parameters, const Gradients& gradients) {
  if (std::isfinite(gradients.global_norm())) return {};
  for (const auto& [name, w] : parameters) {
    const Tensor* gradient = gradients.find(w);
    const std::string first = gradient ? attune::first_not_finite(*gradient) : "";
    if (!first.empty()) return fmt::format("the gradient of '{}' {}", name, first);
  }
  return {};
}

}  // namespace attune::nn
