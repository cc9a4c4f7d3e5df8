// Averages of weights over the steps of training.
#pragma once

#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// The exponential moving average of all parameters (Polyak and Juditsky, 1992, with weights that
/// fall off), which often translates better than the last weights do:
///     a = β a + (1 - β) w,   β = min(decay, (1 + t) / (10 + t))
/// after step t = 1, 2, ..., so that the initial values are soon forgotten.
///
///     adam.step(gradients);
///     average.update();
///     ...
///     { const AverageInPlace scope(average);  validate(); }
class MovingAverage {
 public:
  /// The parameters must outlive it; all of them must exist already. Throws unless 0 < decay < 1.
  MovingAverage(Parameters& parameters, double decay);

  /// After a step of the optimiser.
  void update();

  /// Exchanges the parameters and their averages; a second call changes them back.
  void swap();

  /// To and from a checkpoint ("average.PATH", "average.steps").
  void save(Safetensors& file) const;
  /// Throws, before anything has changed, when some are missing, or of another shape or dtype.
  void load(const Safetensors& file);

 private:
  Parameters& parameters_;
  double decay_;
  std::vector<Tensor> averages_;
  std::int64_t steps_ = 0;
};

/// The averages in the place of the parameters, for as long as it lives.
class AverageInPlace {
 public:
  explicit AverageInPlace(MovingAverage& average) : average_(average) { average_.swap(); }
  ~AverageInPlace() { average_.swap(); }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;

 private:
  MovingAverage& average_;
};

}  // namespace attune::nn
