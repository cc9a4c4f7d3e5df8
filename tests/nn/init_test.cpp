#include <doctest/doctest.h>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/matmul.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;

Tensor draw(const Shape& shape, const nn::Init& init, std::uint64_t seed = 1) {
  Tensor x = full(shape, 1e9, DType::f64);  // every element must be overwritten
  Random random(seed);
  init(x, random);
  return x;
}

struct Moments {
  double mean = 0, variance = 0, lowest, highest;
};

Moments moments_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  const auto n = static_cast<double>(values.size());
  Moments m{.lowest = std::ranges::min(values), .highest = std::ranges::max(values)};
  for (double v : values) m.mean += v / n;
  for (double v : values) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

Tensor identity(Index n) {
  Tensor x = zeros({n, n}, DType::f64);
  for (Index i = 0; i < n; ++i) x.mutable_data<double>()[i * n + i] = 1;
  return x;
}

TEST_CASE("init::zeros and init::constant fill the tensor") {
  CHECK(identical(draw({2, 3}, nn::init::zeros()), zeros({2, 3}, DType::f64)));
  CHECK(identical(draw({5}, nn::init::constant(-2.5)), full({5}, -2.5, DType::f64)));
}

// The tolerances below are five standard deviations of the estimate for n draws: sigma / sqrt(n)
// for a mean, and sigma² sqrt((kurtosis - 1) / n) for a variance (kurtosis: uniform 1.8, normal 3).

TEST_CASE("init::uniform covers its interval evenly") {
  const Index n = 20000;
  const Moments m = moments_of(draw({n}, nn::init::uniform(-1, 3)));
  const double variance = 16.0 / 12, root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(m.mean - 1) < 5 * std::sqrt(variance) / root);
  CHECK(std::abs(m.variance - variance) < 5 * variance * std::sqrt(0.8) / root);
  CHECK(m.lowest >= -1);
  CHECK(m.lowest < -0.995);
  CHECK(m.highest < 3);
  CHECK(m.highest > 2.995);
}

TEST_CASE("init::normal has mean 0 and the deviation asked for") {
  const Index n = 20000;
  const Tensor x = draw({n}, nn::init::normal(0.1));
  const Moments m = moments_of(x);
  const double root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(m.mean) < 5 * 0.1 / root);
  CHECK(std::abs(m.variance - 0.01) < 5 * 0.01 * std::sqrt(2.0) / root);
  double inside = 0;  // within one deviation: 68.27 %
  for (double v : x.to_vector<double>()) inside += std::abs(v) < 0.1;
  CHECK(std::abs(inside / static_cast<double>(n) - 0.6827) < 5 * 0.4655 / root);
}

TEST_CASE("init::glorot is uniform within the root of 6 / (fan_in + fan_out)") {
  const Tensor x = draw({90, 60}, nn::init::glorot());
  const double limit = std::sqrt(6.0 / 150), variance = 2.0 / 150;
  const Moments m = moments_of(x);
  CHECK(m.highest <= limit);
  CHECK(m.lowest >= -limit);
  CHECK(m.highest > 0.99 * limit);
  CHECK(m.lowest < -0.99 * limit);
  CHECK(std::abs(m.variance - variance) < 5 * variance * std::sqrt(0.8 / 5400));
}

TEST_CASE("init::glorot takes the fan-out of one block") {
  const Index blocks = 3, in = 50, out = 20;
  const Tensor x = draw({in, blocks * out}, nn::init::glorot(blocks));
  const double limit = std::sqrt(6.0 / (50 + 20));
  for (Index block = 0; block < blocks; ++block) {
    const Moments m = moments_of(slice(x, 1, block * out, (block + 1) * out));
    CHECK(m.highest <= limit);
    CHECK(m.lowest >= -limit);
    CHECK(m.highest > 0.98 * limit);
    CHECK(m.lowest < -0.98 * limit);
  }
}

TEST_CASE("init::orthogonal: the columns of each square or tall block are orthonormal") {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{4, 4}, {7, 3}, {50, 40}}) {
    const Tensor x = draw({rows, 3 * cols}, nn::init::orthogonal(3));
    for (Index block = 0; block < 3; ++block) {
      const Tensor q = slice(x, 1, block * cols, (block + 1) * cols);
      CHECK(difference(matmul(q, q, {.a = true}), identity(cols)) < 1e-14);
    }
  }
}

TEST_CASE("init::orthogonal: the rows of each wide block are orthonormal") {
  const Tensor x = draw({3, 2 * 5}, nn::init::orthogonal(2));
  for (Index block = 0; block < 2; ++block) {
    const Tensor q = slice(x, 1, block * 5, (block + 1) * 5);
    CHECK(difference(matmul(q, q, {.b = true}), identity(3)) < 1e-14);
  }
}

TEST_CASE("init::orthogonal: blocks differ from each other") {
  const Tensor x = draw({4, 8}, nn::init::orthogonal(2));
  CHECK(difference(slice(x, 1, 0, 4), slice(x, 1, 4, 8)) > 0.1);
}

TEST_CASE("init::glorot and init::orthogonal refuse what is not a row of blocks") {
  CHECK_THROWS_WITH_AS(draw({3}, nn::init::glorot()), "glorot: a matrix was expected: (3)", Error);
  CHECK_THROWS_WITH_AS(draw({3, 7}, nn::init::glorot(2)),
                       "glorot: a matrix of 2 blocks side by side was expected: (3, 7)", Error);
  CHECK_THROWS_WITH_AS(draw({3, 7}, nn::init::orthogonal(2)),
                       "orthogonal: a matrix of 2 blocks side by side was expected: (3, 7)", Error);
  CHECK_THROWS_AS(draw({2, 3, 4}, nn::init::orthogonal()), Error);
  CHECK_THROWS_AS(draw({2, 3}, nn::init::glorot(0)), Error);
  CHECK_THROWS_AS(draw({2, 3}, nn::init::orthogonal(-1)), Error);
}

}  // namespace
