// A counter-based random generator: a seed gives the same numbers on every machine (normal numbers: on
// every CPU with fused multiply-add).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

struct Safetensors;

/// The generator Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3", SC 2011). Block n of a stream is a keyed bijection of n. So the state is three
/// integers, and different seeds (keys) and streams (half of the counter) are independent. The
/// numbers do not depend on the C++ library or on libm.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}
  template <class... T>
  explicit Random(T...) requires(FractionOrBool<T> || ...) = delete;  // a seed is an integer
  /// The stream numbered by a hash of `name`. Parameters use their path as the name, so their
  /// initial values depend only on seed and path.
  Random(std::uint64_t seed, std::string_view name);

  /// The next 32 random bits.
  std::uint32_t bits();
  /// The same numbers as words.size() calls of bits(), several times faster.
  void bits(std::span<std::uint32_t> words);
  /// Factors of dropout (Srivastava et al., 2014): 0 with probability `rate` < 1, else
  /// 1 / (1 - rate). Each factor uses one call of bits().
  template <class T>
  void dropout(double rate, std::span<T> factors);
  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform();
  /// Uniform in [low, high). Throws if that is not a finite range.
  double uniform(double low, double high);
  /// Uniform in [0, n). Throws when n < 1.
  Index below(Integer n);
  /// Standard normal (Box and Muller, 1958).
  double normal();

  /// The whole state of the generator: seed, stream and position.
  using State = std::array<std::uint64_t, 3>;
  State state() const { return {seed_, stream_, position_}; }
  static Random from(const State& state);
  /// Adds the state to a checkpoint's metadata: three integers under the key `name`.
  void save(Safetensors& file, const std::string& name) const;
  /// Restores it. Throws, and changes nothing, if the entry is missing or malformed.
  void load(const Safetensors& file, const std::string& name);
  /// This generator advanced by `words` calls of bits().
  Random ahead(std::uint64_t words) const { return from({seed_, stream_, position_ + words}); }
  Random ahead(FractionOrBool auto words) const = delete;

 private:
  std::uint64_t seed_, stream_;
  std::uint64_t position_ = 0;  // in 32-bit words
  std::array<std::uint32_t, 4> block_{};
  bool block_valid_ = false;
};

/// A random permutation of 0 .. n-1 (Fisher and Yates).
std::vector<std::uint32_t> shuffled(Integer n, Random random);

// Random tensors. Each call advances `random`. Values are computed in f64 and rounded to f32, or
// truncated to i32. They do not depend on the number of threads.
/// Standard normal, as `random.normal()`; in f32 within 4 ulp of it.
Tensor normal(const Shape& shape, Random& random, DType dtype = DType::f32);
/// Uniform in [low, high). Throws if that is not a finite range.
Tensor uniform(const Shape& shape, Random& random, double low = 0, double high = 1,
               DType dtype = DType::f32);
/// 1 with probability p, else 0.
Tensor bernoulli(const Shape& shape, Random& random, double p, DType dtype = DType::f32);
/// i32, uniform in [low, high).
Tensor integers(const Shape& shape, Random& random, Integer low, Integer high);
/// (n) i32: a random permutation of 0 .. n-1.
Tensor permutation(Integer n, Random& random);
/// logits (..., V) -> (...) i32: samples from softmax(logits), by the Gumbel-max trick. Throws if
/// the softmax of a row is undefined: a logit is NaN or ∞, or all are -∞.
Tensor categorical(const Tensor& logits, Random& random);

}  // namespace attune
