#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune {
namespace {

void require_range(double low, double high) {
  if (!(low <= high && std::isfinite(high - low)))
    fail("uniform", "[{}, {}) is not a finite range", low, high);
}

/// A tensor of numbers that draw(words, values, n) computes from n * width words.
template <class Draw>
Tensor drawn(const Shape& shape, DType dtype, Random& random, std::size_t width, const Draw& draw) {
  if (dtype == DType::i32) return drawn(shape, DType::f64, random, width, draw).to(dtype);
  Tensor x = Tensor::uninitialized(shape, dtype, "random");
  parallel_rows(
      "random", std::tie(x), x.size(), elementwise_tile, [&]<class T>(Index at, Index end, T* to) {
        Random own = random.ahead(static_cast<std::uint64_t>(at) * width);
        std::uint32_t words[1024];
        while (at < end) {
          const Index n = std::min<Index>(end - at, std::ssize(words) / static_cast<Index>(width));
          own.bits(std::span(words, static_cast<std::size_t>(n) * width));
          draw(words, to + at, n);
          at += n;
        }
      });
  random = random.ahead(static_cast<std::uint64_t>(x.size()) * width);
  return x;
}

}  // namespace

/// The hash is FNV-1a, 64 bits. Not another one, as initial values of parameters depend on it.
Random::Random(std::uint64_t seed, std::string_view name) : Random(seed, 0xcbf29ce484222325) {
  for (const unsigned char c : name) stream_ = (stream_ ^ c) * 0x100000001b3;
}

std::uint32_t Random::bits() {
  const std::uint64_t lane = position_ % 4;
  if (lane == 0 || !block_valid_) {
    block_ = simd::philox(seed_, stream_, position_ / 4);
    block_valid_ = true;
  }
  ++position_;
  return block_[lane];
}

void Random::bits(std::span<std::uint32_t> words) {
  std::size_t i = 0;
  while (i < words.size() && position_ % 4 != 0) words[i++] = bits();
  const std::size_t blocks = (words.size() - i) / 4;
  simd::philox(seed_, stream_, position_ / 4, blocks, words.data() + i);
  position_ += 4 * blocks;
  for (i += 4 * blocks; i < words.size(); ++i) words[i] = bits();
}

template <class T>
void Random::dropout(double rate, std::span<T> factors) {
  if (!(rate >= 0 && rate < 1)) fail("Random::dropout", "rate = {} is not in [0, 1)", rate);
  const auto limit = static_cast<std::uint32_t>(rate * 0x1p32);
  const T kept = static_cast<T>(1 / (1 - rate));
  std::uint32_t words[512];
  while (!factors.empty()) {
    const std::size_t n = std::min(std::size(words), factors.size());
    bits(std::span(words, n));
    T* const to = factors.data();
    for (std::size_t i = 0; i < n; ++i) to[i] = words[i] < limit ? T(0) : kept;
    factors = factors.subspan(n);
  }
}
template void Random::dropout(double, std::span<float>);
template void Random::dropout(double, std::span<double>);

double Random::uniform() {
  const std::uint64_t high = bits();
  return static_cast<double>((high << 32 | bits()) >> 11) * 0x1p-53;
}

double Random::uniform(double low, double high) {
  require_range(low, high);
  return low + (high - low) * uniform();
}

Index Random::below(Integer n) {
  if (n < 1) fail("Random::below", "the bound {} is not positive", n);
  const auto bound = static_cast<std::uint64_t>(n);
  const std::uint64_t unbiased = ~std::uint64_t{0} - ~std::uint64_t{0} % bound;  // a multiple of n
  for (;;) {
    const std::uint64_t high = bits(), x = high << 32 | bits();
    if (x < unbiased) return static_cast<Index>(x % bound);
  }
}

double Random::normal() {
  const std::array words{bits(), bits(), bits(), bits()};
  double result;
  simd::normal(words.data(), &result, 1);
  return result;
}

Random Random::from(const State& state) {
  Random result(state[0], state[1]);
  result.position_ = state[2];
  return result;
}

void Random::save(Safetensors& file, const std::string& name) const {
  file.metadata[name] = fmt::format("{} {} {}", seed_, stream_, position_);
}

void Random::load(const Safetensors& file, const std::string& name) {
  const auto found = file.metadata.find(name);
  std::istringstream text(found == file.metadata.end() ? "" : found->second);
  State state{};
  for (std::uint64_t& word : state) text >> word;
  if (!text || !(text >> std::ws).eof()) fail("random", "'{}' is not a generator's state", name);
  *this = from(state);
}

std::vector<std::uint32_t> shuffled(Integer n, Random random) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = n; i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<Index>(i))]);
  return order;
}

Tensor normal(const Shape& shape, Random& random, DType dtype) {
  return drawn(shape, dtype, random, 4, [](auto... of) { simd::normal(of...); });
}

Tensor uniform(const Shape& shape, Random& random, double low, double high, DType dtype) {
  require_range(low, high);
  // Rounding, to f32 above all, could give `high` itself.
  const double last = dtype == DType::f32 ? ::nextafterf(high, low) : std::nextafter(high, low);
  return drawn(shape, dtype, random, 2, [=](const std::uint32_t* words, auto* y, Index n) {
    simd::uniform(words, low, high - low, last, y, n);
  });
}

Tensor bernoulli(const Shape& shape, Random& random, double p, DType dtype) {
  if (!(p >= 0 && p <= 1)) fail("bernoulli", "p = {} is not in 0 to 1", p);
  return drawn(shape, dtype, random, 2, [=]<class T>(const std::uint32_t* words, T* y, Index n) {
    double u[512];
    simd::uniform(words, 0, 1, 1, u, n);
    for (Index i = 0; i < n; ++i) y[i] = T(u[i] < p);
  });
}

Tensor integers(const Shape& shape, Random& random, Integer low, Integer high) {
  if (low >= high) fail("integers", "the range {} to {} (exclusive) is empty", low, high);
  if (low < std::numeric_limits<std::int32_t>::min() || high > Index{1} << 31)
    fail("integers", "the range {} to {} (exclusive) does not fit in i32", low, high);
  Tensor x = Tensor::uninitialized(shape, DType::i32, "random");
  for (std::int32_t& v : std::span(x.mutable_data<std::int32_t>(), x.size()))
    v = static_cast<std::int32_t>(low + random.below(high - low));
  return x;
}

Tensor permutation(Integer n, Random& random) {
  require_i32_indices("permutation", n);
  if (n < 0) fail("permutation", "n = {} is negative", n);
  const std::uint64_t stream = random.bits();  // not as an argument: compilers order those freely
  const auto order = shuffled(static_cast<std::size_t>(n), Random(random.bits(), stream));
  return Tensor::of<std::int32_t>({n}, std::vector<std::int32_t>(order.begin(), order.end()));
}

Tensor categorical(const Tensor& logits, Random& random) {
  const Tensor largest = max(logits.to(DType::f64), -1, KeepAxes::yes);
  if (const std::string found = first_non_finite(largest); !found.empty())
    fail("categorical", "logits {} have no softmax: the largest of each row {}", logits.shape(),
         found);
  const Tensor gumbel = -log(-log(1 - uniform(logits.shape(), random, 0x1p-53, 1, DType::f64)));
  return argmax(logits.to(DType::f64) + gumbel);
}

}  // namespace attune
