#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/clipping.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::nn {

double clip_by_global_norm(Gradients& gradients, double largest) {
  if (!(largest > 0)) fail("clip_by_global_norm", "the largest norm {} is not positive", largest);
  const double norm = gradients.global_norm();
  if (!std::isfinite(norm)) {
    std::string first;
    for (const Tensor& gradient : gradients.all())
      if (first.empty()) first = first_non_finite(gradient);
    if (!first.empty()) first.insert(0, ": gradient of a variable ");
    fail("clip_by_global_norm", "the norm of the gradients is {}{}", norm, first);
  }
  if (norm > largest) gradients.scale(largest / norm);
  return norm;
}

std::string non_finite_gradient(const Parameters& parameters, const Gradients& gradients) {
  if (std::isfinite(gradients.global_norm())) return {};
  for (const auto& [name, w] : parameters) {
    const Tensor* gradient = gradients.find(w);
    const std::string found = gradient ? first_non_finite(*gradient) : "";
    if (!found.empty()) return fmt::format("the gradient of '{}' {}", name, found);
  }
  return {};
}

DivergenceMonitor::Step DivergenceMonitor::observe(double loss, const Parameters& parameters,
                                                   Gradients& gradients) {
  const double norm = gradients.global_norm();
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    ++skipped_, ++in_a_row_;
    const std::string first = non_finite_gradient(parameters, gradients);
    return {false, fmt::format("the update is skipped: the loss is {:.4g}, the norm of the "
                               "gradients {:.4g}{}{}",
                               detail::shown(loss), norm, first.empty() ? "" : ": ", first)};
  }
  in_a_row_ = 0;
  if (first_loss_ == 0) first_loss_ = loss;
  above_ = first_loss_ > 0 && loss > factor * first_loss_ ? above_ + 1 : 0;
  if (above_ != patience) return {true, ""};
  return {true, fmt::format("training diverges: the loss, {:.4g}, has been more than {:g} times "
                            "the first step's, {:.4g}, for {} steps",
                            loss, factor, first_loss_, patience)};
}

void DivergenceMonitor::save(Safetensors& file) const {
  file.metadata["divergence.first_loss"] = fmt::format("{}", first_loss_);
  file.metadata["divergence.above"] = fmt::format("{}", above_);
  file.metadata["divergence.skipped"] = fmt::format("{}", skipped_);
  file.metadata["divergence.in_a_row"] = fmt::format("{}", in_a_row_);
}

void DivergenceMonitor::load(const Safetensors& file) {
  constexpr double most = std::numeric_limits<double>::max();
  DivergenceMonitor read;
  read.first_loss_ = load_number(file.metadata, "divergence.first_loss", -most, most);
  read.above_ = load_count(file.metadata, "divergence.above");
  read.skipped_ = load_count(file.metadata, "divergence.skipped");
  read.in_a_row_ = load_count(file.metadata, "divergence.in_a_row");
  *this = read;
}

}  // namespace attune::nn
