// Initial values of parameters.
#pragma once

#include <functional>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::nn {

/// Fills a tensor (f64; converted to the parameter's type afterwards) from a random stream.
using Init = std::function<void(Tensor&, Random&)>;

namespace init {

Init zeros();
Init constant(double value);
/// Uniform in [low, high).
Init uniform(double low, double high);
/// Normal with mean 0.
Init normal(double standard_deviation);

/// Uniform in ±√(6 / (fan_in + fan_out))  (Glorot and Bengio, 2010) for a matrix (fan_in, fan_out).
/// `blocks` matrices may stand side by side, such as the gates of a cell, in
/// (fan_in, blocks · fan_out).
Init glorot(Index blocks = 1);

/// Columns (or rows, where there are fewer) of each block form an orthonormal system (Saxe et al.,
/// 2014).
Init orthogonal(Index blocks = 1);

}  // namespace init
}  // namespace attune::nn
