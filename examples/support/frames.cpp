#include "support/frames.hpp"

#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>

namespace attune::frames {

Tensor scaled(const Tensor& x, const Scaling& scaling) {
  return (x - scaling.mean.to(x.dtype())) / scaling.deviation.to(x.dtype());
}

Tensor unscaled(const Tensor& x, const Scaling& scaling) {
  return x * scaling.deviation.to(x.dtype()) + scaling.mean.to(x.dtype());
}

void check(const Scaling& scaling) {
  const std::vector<double> mean = scaling.mean.to_vector<double>(),
                            deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (std::isfinite(mean[i]) && std::isfinite(deviation[i]) && deviation[i] > 0) continue;
    fail("scaling", fmt::format("feature {} has the mean {} and the deviation {}: numbers were "
                                "expected, and a positive deviation",
                                i, mean[i], deviation[i]));
  }
}

nn::NamedTensors scaling_tensors(const Scaling& scaling) {
  return {{"scaling.mean", scaling.mean}, {"scaling.deviation", scaling.deviation}};
}

void Moments::add(const Tensor& x) {
  const auto d = static_cast<std::size_t>(x.dim(-1));
  if (count_ == 0) mean_.assign(d, 0), squares_.assign(d, 0);
  if (d != mean_.size()) {
    fail("Moments",
         fmt::format("{} has not the {} features of before", to_string(x.shape()), mean_.size()));
  }
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t row = 0; row < values.size(); row += d) {
    ++count_;
    for (std::size_t i = 0; i < d; ++i) {
      const double distance = values[row + i] - mean_[i];
      mean_[i] += distance / count_;
      squares_[i] += distance * (values[row + i] - mean_[i]);
    }
  }
}

Scaling Moments::scaling(DType dtype) const {
  if (count_ == 0) fail("Moments", "there is nothing to scale by");
  std::vector<double> deviation;
  for (const double squares : squares_) deviation.push_back(std::sqrt(squares / count_));
  const auto tensor = [&](std::span<const double> values) {
    return Tensor::of({std::ssize(values)}, values).to(dtype);
  };
  return {tensor(mean_), tensor(deviation)};
}

}  // namespace attune::frames
