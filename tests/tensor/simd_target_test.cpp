// All instruction sets with fused multiply-adds give the same bits, for any number of threads; the
// others the same results up to rounding. A process reads ATTUNE_TARGET once, so each instruction
// set runs in a process of its own.

#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/recurrent.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/safetensors.hpp>
#include <attune/tensor/threads.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"
#include "support/process.hpp"
#include "support/scratch_directory.hpp"
#include "support/targets.hpp"

namespace attune {
namespace {

double largest(const Tensor& x) {
  double result = 0;
  for (double v : x.to_vector<double>()) result = std::max(result, std::abs(v));
  return result;
}

/// Error bounds. A rounding error is at most u (2⁻²⁴ for f32, 2⁻⁵³ for f64) times the rounded
/// value, which is at most `size`, the sum of the absolute values of all terms. The error of a
/// chain of n roundings that are not amplified is about √n u size, as they are independent (Higham
/// and Mary, 2019). Two chains with different roundings differ by at most twice that.
struct Result {
  std::string name;
  Tensor value;
  Index roundings;
  double size;

  double tolerance() const {
    const double u = value.dtype() == DType::f32 ? 0x1p-24 : 0x1p-53;
    return 2 * std::sqrt(static_cast<double>(roundings)) * u * size;
  }
};

std::vector<Result> results(DType dtype) {
  std::vector<Result> all;
  const auto add = [&](const char* name, const Tensor& value, Index roundings, double size = 0) {
    const std::string full_name = fmt::format("{} {}", name, name_of(dtype));
    all.push_back({full_name, value, roundings, std::max(size, largest(value))});
  };
  const auto absolute = [](const Tensor& x) { return map(x, [](auto v) { return std::abs(v); }); };

  const Tensor a = randn({70, 301}, dtype), b = randn({301, 130}, dtype, 2);
  add("product", matmul(a, b), 2 * 301, largest(matmul(absolute(a), absolute(b))));
  const Tensor x = randn({70, 1003}, dtype, 3);
  // 2 ulp are 4 u, like 16 roundings.
  add("exp", exp(x), 16);
  add("tanh", tanh(x), 16);
  add("sigmoid", sigmoid(x), 16);
  add("sum of squares", scalar(sum_of_squares(x), DType::f64), 2 * 70 * 1003);
  // The exponent x - max is below 10 in magnitude: rounding it changes the result by up to 10 u.
  add("softmax", softmax(x, 1), 1003 + 100);
  add("softplus", softplus(x), 20);
  const Tensor targets = zeros({70}, DType::i32);
  add("cross-entropy", cross_entropy_forward(x, targets).loss, 1003 + 100, 10);
  const Tensor gain = randn({1003}, dtype, 4);
  const LayerNormForward normal = layer_norm_forward(x, gain, gain, 1e-5);
  add("layer norm", normal.y, 2 * 1003 + 20);
  add("layer norm, backward", layer_norm_backward(x, gain, normal, x).dx, 4 * 1003 + 40);

  // Weights are so small that a step does not amplify errors; H products and some 40
  // roundings each.
  constexpr Index steps = 5, hidden = 33;
  const Tensor w = randn({hidden, 4 * hidden}, dtype, 5) * 0.02;
  const Tensor xw = randn({steps, 41, 4 * hidden}, dtype, 6),
               dh = randn({steps, 41, hidden}, dtype, 7);
  const RecurrenceOf<Tensor> lstm{.cell = Cell::lstm}, gru;
  const RecurrentActivations forward = recurrent_forward(xw, w, lstm);
  add("lstm", forward.h, steps * (hidden + 40));
  add("lstm, backward", recurrent_backward(xw, w, lstm, forward, dh).dxw,
      steps * (5 * hidden + 80));
  const Tensor gru_w = randn({hidden, 3 * hidden}, dtype, 9) * 0.02;
  add("gru", recurrent_forward(randn({steps, 41, 3 * hidden}, dtype, 8), gru_w, gru).h,
      steps * (hidden + 40));
  return all;
}

std::vector<Result> results() {
  std::vector<Result> all = results(DType::f32);
  for (Result& result : results(DType::f64)) all.push_back(std::move(result));
  return all;
}

bool fuses(const std::string& target) { return target.starts_with("avx") || target == "neon"; }

/// FNV-1a over the bits of 100,000 results of f, which draws its own arguments.
template <class F>
std::uint64_t hash_of_results(F f) {
  using T = std::invoke_result_t<F, Random&>;
  Random random(1);
  std::uint64_t h = 0xcbf29ce484222325;
  for (int i = 0; i < 100'000; ++i) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    h = (h ^ std::bit_cast<Bits>(f(random))) * 0x100000001b3;
  }
  return h;
}

/// A number in [2^low, 2^high) with uniform exponent and mantissa.
double of_any_size(Random& random, int low, int high) {
  const double mantissa = 1 + random.uniform();
  return std::ldexp(mantissa, static_cast<int>(low + random.below(high - low)));
}

test::ProcessResult run_child(std::map<std::string, std::string> environment) {
  return test::run_test_case("simd target: the child of *",
                             {.environment = std::move(environment)});
}

}  // namespace

TEST_CASE("simd target: the child of another test" * doctest::skip()) {
  const std::string wanted = std::getenv("ATTUNE_TARGET");
  const char* file = std::getenv("ATTUNE_TEST_FILE");
  if (!file) {
    const std::string start = fmt::format(
        "ATTUNE_TARGET: '{}' is not an instruction set of this CPU and build, which have ", wanted);
    for (int i = 0; i < 2; ++i) CHECK(error_of([] { simd_target(); }).starts_with(start));
    CHECK_THROWS_AS(tanh(ones({3})), Error);
    return;
  }
  matmul_backends();  // reads the name of the instruction set, which must not change it
  REQUIRE(simd_target() == wanted);
  Safetensors contents;
  for (int n : {1, 2, 3, 4}) {
    set_threads(n);
    for (const Result& result : results()) {
      if (n == 1) contents.add(result.name, result.value);
      CAPTURE(n);
      CAPTURE(result.name);
      CHECK(identical(result.value, *contents.find(result.name)));
    }
  }
  save_safetensors(file, contents);
}

TEST_CASE(
    "simd target: same bits for 1 to 4 threads and for all targets with fused multiply-adds") {
  const ScratchDirectory directory;
  const std::string file = directory / "results";
  const std::string best = simd_target();
  const std::vector<Result> own = results();
  test::for_each_target([&] {
    const auto child = run_child({{"ATTUNE_TARGET", simd_target()}, {"ATTUNE_TEST_FILE", file}});
    REQUIRE_MESSAGE(child.status == 0, child.out);
    const Safetensors theirs = load_safetensors(file);
    const bool same = fuses(best) == fuses(simd_target());
    bool differs = false;
    for (const Result& result : own) {
      CAPTURE(result.name);
      const Tensor& their = *theirs.find(result.name);
      const double off = largest(their - result.value);
      CHECK(off <= result.tolerance());
      if (same) CHECK(identical(their, result.value));
      differs = differs || off > 0;
    }
    CHECK(differs != same);
  });
}

TEST_CASE("simd target: an invalid ATTUNE_TARGET is an error whenever a kernel is needed") {
  for (const std::string text : {"avx9", "AVX2", " avx2", "0"}) {
    const auto child = run_child({{"ATTUNE_TARGET", text}});
    CHECK_MESSAGE(child.status == 0, child.out);
  }
}

// Expected numbers are from glibc 2.36, on x86-64 and 64-bit ARM. Arguments are scaled by powers of
// two, which is exact.
TEST_CASE("simd target: the C library's functions give the same bits on each machine") {
#ifdef __GLIBC__
  const bool comparable = fuses(simd_target());
#else
  const bool comparable = false;
#endif
  if (!comparable) {
    MESSAGE("skipped: glibc's, with fused multiply-adds, give these numbers");
    return;
  }
  const auto scaled = [](Random& r, double bound) { return (r.uniform() - 0.5) * (2 * bound); };
  const auto power = [&]<class T>(Random& r, T bound) {
    const T base = static_cast<T>(of_any_size(r, -8, 8));
    return std::pow(base, static_cast<T>(scaled(r, bound)));
  };
  const std::tuple<const char*, std::uint64_t, std::uint64_t> functions[] = {
      {"exp", hash_of_results([&](Random& r) { return std::exp(scaled(r, 512)); }),
       0xf4c00d7e2ef5f218},
      {"log", hash_of_results([](Random& r) { return std::log(of_any_size(r, -1000, 1000)); }),
       0xcf6628dd9bfbd5af},
      {"log1p", hash_of_results([](Random& r) { return std::log1p(of_any_size(r, -60, 0)); }),
       0xabbf27d3a4830b41},
      {"pow", hash_of_results([&](Random& r) { return power(r, 32.0); }), 0x2d5eceb4ecf11bc6},
      {"expf",
       hash_of_results([&](Random& r) { return std::exp(static_cast<float>(scaled(r, 64))); }),
       0xdf540b1e3a2fca6a},
      {"logf", hash_of_results([](Random& r) {
         return std::log(static_cast<float>(of_any_size(r, -100, 100)));
       }),
       0xfff7f5f33753c150},
      {"powf", hash_of_results([&](Random& r) { return power(r, 16.0f); }), 0xd5188354bfea30e4}};
  for (const auto& [name, hash, expected] : functions) {
    CAPTURE_BINDING(name);
    CHECK(fmt::format("{:016x}", hash) == fmt::format("{:016x}", expected));
  }
}

}  // namespace attune
