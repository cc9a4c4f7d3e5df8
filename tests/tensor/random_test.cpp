// Expected numbers were computed by an implementation of Philox4x32-10 in Python, which was checked
// against the known answers published with Random123; for the distributions, in 200-bit arithmetic.

#include <cmath>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

std::array<std::uint32_t, 4> block(Random random) {
  return {random.bits(), random.bits(), random.bits(), random.bits()};
}

using Block = std::array<std::uint32_t, 4>;

}  // namespace

TEST_CASE("Random: equals Philox4x32-10 with seed, stream and position in key and counter") {
  CHECK(block(Random(0, 0)) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint64_t seed = 0x299f31d0a4093822, stream = 0x0370734413198a2e;
  CHECK(block(Random(seed, stream)) == Block{0xb60a410e, 0x61bd7780, 0xa53f3958, 0x3d51eb3f});
  CHECK(block(Random::from({seed, stream, 4})) ==
        Block{0x314ddb4b, 0x0ab83527, 0x9fc3cabe, 0x3fc8cf4c});
  // The second word of the counter, with all bits that can be reached.
  CHECK(block(Random::from({7, 5, std::uint64_t{1} << 34})) ==
        Block{0xb94e203d, 0x80d0d3f8, 0x4542f3ad, 0xeba8fc48});
  constexpr std::uint64_t all = ~std::uint64_t{0};
  CHECK(block(Random::from({all, all, all - 3})) ==
        Block{0x8c5f4338, 0x4a57523d, 0x7e300cb1, 0x411fcefd});
}

TEST_CASE("Random: bits(span) equals single calls of bits(), at any position") {
  constexpr std::uint64_t wrap = std::uint64_t{1} << 34;  // the lower word of the counter wraps
  for (const std::uint64_t position : {std::uint64_t{0}, std::uint64_t{3}, wrap - 50, ~wrap}) {
    for (const std::size_t n : {0, 1, 2, 5, 64, 333}) {
      Random one = Random::from({7, 5, position}), many = one;
      std::vector<std::uint32_t> words(n);
      many.bits(words);
      for (const std::uint32_t word : words) REQUIRE(word == one.bits());
      CHECK(many.state() == one.state());
      CHECK(many.bits() == one.bits());
    }
  }
}

TEST_CASE("Random: a name is hashed into a stream (FNV-1a)") {
  CHECK(Random(1, "encoder.W_h").state() == Random::State{1, 0x9b42de374bb060f3, 0});
  CHECK(Random(1, "a").state()[1] == 0xaf63dc4c8601ec8c);
  CHECK(block(Random(1, "encoder.W_h")) != block(Random(1, "encoder.W_x")));
  CHECK(block(Random(1, "encoder.W_h")) != block(Random(2, "encoder.W_h")));
}

TEST_CASE("Random: uniform numbers are the leading 53 bits of two words") {
  Random random(42);
  CHECK(random.uniform() == 0.6129598811894158);
  CHECK(random.uniform() == 0.073231737441583844);
  CHECK(random.uniform() == 0.9877186509145105);
  CHECK(random.uniform() == 0.51390614697111658);
}

TEST_CASE("Random: uniform numbers are in [0, 1) and evenly distributed") {
  Random random(3);
  constexpr int n = 200'000;
  std::array<int, 16> bins{};
  double total = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform();
    REQUIRE((u >= 0 && u < 1));
    total += u;
    ++bins[static_cast<std::size_t>(u * 16)];
  }
  CHECK(total / n == doctest::Approx(0.5).epsilon(5 * std::sqrt(1 / 12.0 / n) / 0.5));
  double chi_squared = 0;
  for (int count : bins) chi_squared += std::pow(count - n / 16.0, 2) / (n / 16.0);
  CHECK(chi_squared < 37.7);  // 15 degrees of freedom: probability 0.1 %
  for (int i = 0; i < 1000; ++i) {
    const double v = random.uniform(-3, 2);
    REQUIRE((v >= -3 && v < 2));
  }
}

TEST_CASE("Random: below gives integers below its bound, which must be positive") {
  Random random(42);
  for (Index expected : {99, 639, 213, 475, 507, 449, 611, 943})
    CHECK(random.below(1000) == expected);
  for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);
  CHECK_ERROR("Random::below: the bound 0 is not positive", random.below(0));
  CHECK_THROWS_AS(random.below(-5), Error);
}

TEST_CASE("Random: dropout checks its rate") {
  Random random(42);
  float factors[2];
  for (const double rate : {nan, -0.1, 1.0})
    CHECK_THROWS_AS(random.dropout(rate, std::span<float>(factors)), Error);
}

TEST_CASE("Random: below redraws to avoid the bias of the remainder") {
  // With this bound one draw in four is rejected on average; here 6 of 10 are.
  Random random(9);
  const Index bound = (Index{1} << 62) + (Index{1} << 61) + 1;
  for (Index expected :
       {1003707513868176999, 4198588451164169815, 3517826049296492177, 123586394247698372}) {
    CHECK(random.below(bound) == expected);
  }
  CHECK(random.state()[2] == 2 * 10);
}

TEST_CASE("Random: below is evenly distributed") {
  Random random(5);
  std::array<int, 7> bins{};
  constexpr int n = 70'000;
  for (int i = 0; i < n; ++i) ++bins[static_cast<std::size_t>(random.below(7))];
  double chi_squared = 0;
  for (int count : bins) chi_squared += std::pow(count - n / 7.0, 2) / (n / 7.0);
  CHECK(chi_squared < 22.5);  // 6 degrees of freedom: probability 0.1 %
}

TEST_CASE("Random: normal numbers equal Box and Muller's up to rounding") {
  Random random(42);
  for (double expected : {1.234541820550271, -2.9550533475152116, -1.4934674670939772,
                          -1.384791506980714, -0.39231718140509902, 0.82398762204017728}) {
    CHECK(random.normal() == doctest::Approx(expected).epsilon(1e-15));
  }
}

TEST_CASE("Random: normal numbers have the moments and tails of the distribution") {
  Random random(6);
  constexpr int n = 400'000;
  double sums[5] = {};
  const double quantiles[] = {-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3};
  std::array<int, 9> below{};
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    for (int k = 1; k <= 4; ++k) sums[k] += std::pow(x, k);
    for (std::size_t q = 0; q < below.size(); ++q) below[q] += x < quantiles[q];
  }
  // Five standard errors of each moment: those of x, x², x³, x⁴ are 1, √2, √15, √96.
  const double error = 5 / std::sqrt(n);
  CHECK(std::abs(sums[1] / n) < error);
  CHECK(std::abs(sums[2] / n - 1) < error * std::sqrt(2));
  CHECK(std::abs(sums[3] / n) < error * std::sqrt(15));
  CHECK(std::abs(sums[4] / n - 3) < error * std::sqrt(96));
  for (std::size_t q = 0; q < below.size(); ++q) {
    CAPTURE(quantiles[q]);
    const double p = std::erfc(-quantiles[q] / std::sqrt(2)) / 2;
    CHECK(std::abs(below[q] / double(n) - p) < error * std::sqrt(p * (1 - p)));
  }
}

TEST_CASE("Random: a state resumes the sequence, also in the middle of a block") {
  Random random(11, 12);
  for (int drawn = 0; drawn < 9; ++drawn) {
    CAPTURE(drawn);
    Random copy = Random::from(random.state());
    Random other = random;
    for (int i = 0; i < 6; ++i) CHECK(copy.bits() == other.bits());
    CHECK(copy.state() == other.state());
    random.bits();
  }
}

TEST_CASE("randn: draws in row-major order; f32 is close to f64") {
  Random random(7);
  naive::Array expected(Shape{3, 2, 5});
  naive::for_each_index(expected.shape(),
                        [&](const naive::At& at) { expected[at] = random.normal(); });
  CHECK(identical(randn({3, 2, 5}, DType::f64, 7), expected.tensor()));
  CHECK(difference(randn({3, 2, 5}, DType::f32, 7), expected.tensor(DType::f32)) <= 1e-6);
}

TEST_CASE("shuffled: a permutation; all permutations are about equally frequent") {
  std::vector<int> seen(6, 0);
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    const auto order = shuffled(3, Random(seed));
    REQUIRE(order[0] + order[1] + order[2] == 3);
    ++seen[order[0] * 2 + (order[1] > order[2])];
  }
  for (const int count : seen) CHECK(count == doctest::Approx(1000).epsilon(0.1));
}

TEST_CASE("Random tensors: each call draws new numbers, with the requested range and frequencies") {
  Random random(3);
  const Tensor x = normal({40, 100}, random, DType::f64),
               again = normal({40, 100}, random, DType::f64);
  CHECK_FALSE(identical(x, again));
  CHECK(std::abs(sum(x).item() / 4000) < 0.05);
  CHECK(std::abs(sum(x * x).item() / 4000 - 1) < 0.1);
  const Tensor u = uniform({1000}, random, -2, 3);
  CHECK(u.dtype() == DType::f32);
  CHECK((min(u).item() >= -2 && min(u).item() < -1.9 && max(u).item() < 3 && max(u).item() > 2.9));
  Random rare = Random(1).ahead(109568476);
  CHECK((Random(rare).uniform() >= 1 - 0x1p-25 && uniform({1}, rare).item() < 1));
  CHECK(std::abs(sum(bernoulli({4000}, random, 0.25)).item() - 1000) < 100);
  const Tensor n = integers({2000}, random, -1, 2);
  CHECK(n.dtype() == DType::i32);
  for (const int value : {-1, 0, 1}) CHECK(std::abs(sum(n == value).item() - 667) < 100);
  Random copy = random;
  const std::uint64_t stream = copy.bits(), seed = copy.bits();
  const Tensor order = permutation(6, random);
  CHECK(std::ranges::equal(order.to_vector<std::int32_t>(), shuffled(6, Random(seed, stream))));
  CHECK_FALSE(identical(order, permutation(6, random)));
  CHECK(identical(gather(arange(6), order), order));
  CHECK(sum(one_hot(order, 6), 0).to_vector<float>() == std::vector<float>(6, 1));
  const Tensor logits = broadcast_to(log(reals({3}, {0.5, 0, 0.5})), {3000, 3});
  const Tensor classes = categorical(logits, random);
  CHECK(classes.shape() == Shape{3000});
  CHECK(std::abs(sum(classes == 0).item() - 1500) < 150);
  CHECK(sum(classes == 1).item() == 0);
  CHECK_ERROR(
      "categorical: logits (2, 3) have no softmax: the largest of each row (2, 1), element "
      "(1, 0) is nan",
      categorical(reals({2, 3}, {-infinity, 0, -infinity, 5, -nan, 9}), random));
  CHECK_ERROR(
      "categorical: logits (2) have no softmax: the largest of each row (1), element (0) "
      "is -inf",
      categorical(full({2}, -infinity), random));
  CHECK_ERROR(
      "categorical: logits (2) have no softmax: the largest of each row (1), element (0) "
      "is inf",
      categorical(reals({2}, {1, infinity}), random));
  CHECK_ERROR("uniform: [0, inf) is not a finite range", random.uniform(0, infinity));
  CHECK_ERROR("uniform: [nan, 1) is not a finite range", random.uniform(-nan, 1));
  CHECK_ERROR("bernoulli: p = nan is not in 0 to 1", bernoulli({1}, random, -nan));
  CHECK_ERROR("bernoulli: p = 1.5 is not in 0 to 1", bernoulli({1}, random, 1.5));
  CHECK_ERROR("uniform: [2, 1) is not a finite range", uniform({1}, random, 2, 1));
  CHECK_ERROR("uniform: [-1e+308, 1e+308) is not a finite range",
              uniform({1}, random, -1e308, 1e308));
  CHECK_ERROR("integers: the range 2 to 2 (exclusive) is empty", integers({1}, random, 2, 2));
  CHECK_ERROR("integers: the range 0 to 2147483649 (exclusive) does not fit in i32",
              integers({1}, random, 0, (Index{1} << 31) + 1));
  CHECK_ERROR("permutation: n = -1 is negative", permutation(-1, random));
}

TEST_CASE("Random: save and load; a malformed state is an error") {
  Safetensors file;
  Random random(7, 3), resumed(0);
  random.normal();
  random.save(file, "draws");
  resumed.load(file, "draws");
  CHECK(resumed.bits() == random.bits());
  const Random::State before = resumed.state();
  for (const char* text : {"", "1 2", "1 2 x", "1 2 3 4", "1 2 99999999999999999999"}) {
    file.metadata["draws"] = text;
    CHECK_ERROR("random: 'draws' is not a generator's state", resumed.load(file, "draws"));
  }
  CHECK_ERROR("random: 'other' is not a generator's state", resumed.load(file, "other"));
  CHECK(resumed.state() == before);
}

}  // namespace attune
