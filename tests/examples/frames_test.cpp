// Sequences of real numbers: batches, scaling, augmentation.
#include "support/frames.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/naive.hpp"

namespace attune::frames {
namespace {

TEST_CASE("make_batch: sequences in columns, zeros and a mask after their ends") {
  const Tensor all[] = {randn({2, 3}, DType::f64), randn({4, 3}, DType::f64, 2)};
  const auto [x, mask] = make_batch(all);
  CHECK(x.shape() == Shape{4, 2, 3});
  CHECK(test::identical(mask, test::ragged_mask(4, {2, 4})));
  for (Index b = 0; b < 2; ++b)
    CHECK(test::identical(test::sentence(x.value(), b, all[b].dim(0)).reshape({-1, 3}), all[b]));
  CHECK(sum(x.value() * (1.0 - mask).reshape({4, 2, 1})).item() == 0);
  const Tensor other[] = {randn({2, 3}, DType::f64), randn({2, 4}, DType::f64)};
  CHECK(error_of([&] { make_batch(other); }) ==
        "make_batch: a sequence (D) is (4), but D = 3 in a sequence");
  CHECK(error_of([] { make_batch({}); }) == "make_batch: there is no sequence");
}

TEST_CASE("Moments: mean and deviation of all that was added, at any level") {
  const Tensor x = randn({50, 2}, DType::f64) * Tensor::of<double>({2}, {3, 0.5}) +
                   Tensor::of<double>({2}, {1e6, -2});
  Moments moments;
  moments.add(x.slice(0, 20));
  moments.add(x.slice(20, 50).reshape({10, 3, 2}));
  const Scaling scaling = moments.scaling();
  const Tensor y = scaled(x, scaling);
  for (const double mean : mean(y, {0}).to_vector<double>())
    CHECK(std::abs(mean) < 0.02);  // f32 near 1e6
  for (const double square : mean(y * y, {0}).to_vector<double>())
    CHECK(square == doctest::Approx(1).epsilon(1e-3));
  CHECK(test::difference(unscaled(y, scaling), x) < 1e-6);
  CHECK(error_of([&] { moments.add(randn({3}, DType::f64)); }) ==
        "Moments: (3) has not the 2 features of before");
  CHECK(error_of([] { Moments().scaling(); }) == "Moments: there is nothing to scale by");
}

/// A tone of so many periods per sample.
std::vector<float> tone(std::size_t samples, double frequency) {
  std::vector<float> wave(samples);
  for (std::size_t i = 0; i < samples; ++i)
    wave[i] =
        static_cast<float>(std::sin(2 * std::numbers::pi * frequency * static_cast<double>(i)));
  return wave;
}

TEST_CASE("resampled: a tone stays the tone, and what the new rate cannot hold is gone") {
  for (const double ratio : {2.0, 0.5, 1.1, 0.9}) {
    const std::vector<float> y = resampled(tone(2000, 0.02), ratio),
                             expected = tone(y.size(), 0.02 / ratio);
    CHECK(y.size() == static_cast<std::size_t>(2000 * ratio));
    for (std::size_t i = 100; i + 100 < y.size(); ++i) CHECK(std::abs(y[i] - expected[i]) < 2e-3);
  }
  const std::vector<float> y = resampled(tone(2000, 0.4), 0.5);
  for (std::size_t i = 100; i + 100 < y.size(); ++i) CHECK(std::abs(y[i]) < 2e-3);
  CHECK(resampled(tone(5, 0.1), 1) == tone(5, 0.1));
  CHECK(error_of([] { resampled({}, 0); }) == "resampled: the ratio 0 is not in 1/64 to 64");
}

TEST_CASE("add_noise: of the power that was asked for, the same for a seed") {
  const std::vector<float> clean = tone(20000, 0.03);
  std::vector<float> noisy = clean, again = clean;
  Random a(1), b(1);
  add_noise(noisy, 10, a);
  add_noise(again, 10, b);
  CHECK(noisy == again);
  double power = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) power += std::pow(noisy[i] - clean[i], 2) / 20000;
  CHECK(power == doctest::Approx(0.05).epsilon(0.05));  // a tenth of a sine's 0.5
}

TEST_CASE("spec_augment: whole steps and whole features, not more of them than was allowed") {
  const SpecAugmentOptions options{
      .time_masks = 1, .longest_time = 5, .feature_masks = 1, .widest_features = 3, .most_time = 1};
  bool hid_steps = false, hid_features = false;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Tensor x = ones({30, 8});
    Random random(seed);
    spec_augment(x, options, random);
    const Tensor hidden = 1.0 - x;
    const auto whole = [](const Tensor& sums, double all) {
      return std::ranges::count(sums.to_vector<double>(), all);
    };
    const auto steps = whole(sum(hidden, {1}), 8), features = whole(sum(hidden, {0}), 30);
    CHECK(steps <= 5);
    CHECK(features <= 3);
    CHECK(sum(hidden).item() == static_cast<double>(steps * 8 + features * (30 - steps)));
    hid_steps |= steps > 0;
    hid_features |= features > 0;
  }
  CHECK(hid_steps);
  CHECK(hid_features);
}

}  // namespace
}  // namespace attune::frames
