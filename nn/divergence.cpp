#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/divergence.hpp>

namespace attune::nn {

DivergenceWatch::Step DivergenceWatch::observe(double loss, const Parameters& parameters,
                                               Gradients& gradients) {
  const double norm = gradients.global_norm();
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    ++skipped_, ++in_a_row_;
    if (std::isnan(loss)) loss = std::abs(loss);  // "nan", whatever its sign
    const std::string first = first_not_finite(parameters, gradients);
    return {false, fmt::format("the update is skipped: the loss is {:.4g}, the norm of the "
                               "gradients {:.4g}{}{}",
                               loss, norm, first.empty() ? "" : ": ", first)};
  }
  in_a_row_ = 0;
  if (first_loss_ == 0) first_loss_ = loss;
  above_ = first_loss_ > 0 && loss > factor * first_loss_ ? above_ + 1 : 0;
  if (above_ != patience) return {true, ""};
  return {true, fmt::format("training diverges: the loss, {:.4g}, has been more than {:g} times "
                            "the first step's, {:.4g}, for {} steps",
                            loss, factor, first_loss_, patience)};
}

void DivergenceWatch::save(Metadata& metadata) const {
  metadata["divergence.first_loss"] = fmt::format("{}", first_loss_);
  metadata["divergence.above"] = fmt::format("{}", above_);
  metadata["divergence.skipped"] = fmt::format("{}", skipped_);
  metadata["divergence.in_a_row"] = fmt::format("{}", in_a_row_);
}

void DivergenceWatch::load(const Metadata& metadata) {
  constexpr double most = std::numeric_limits<double>::max();
  DivergenceWatch read;
  read.first_loss_ = load_number(metadata, "divergence.first_loss", -most, most);
  read.above_ = load_count(metadata, "divergence.above");
  read.skipped_ = load_count(metadata, "divergence.skipped");
  read.in_a_row_ = load_count(metadata, "divergence.in_a_row");
  *this = read;
}

}  // namespace attune::nn
