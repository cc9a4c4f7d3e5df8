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
#include <attune/tensor/kernels/simd/functions.hpp>
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
  Random random(3);  // uniform numbers are the same bits for all
  const Tensor x = uniform({70, 1003}, random, -4, 4, dtype);
  // 2 ulp are 4 u, like 16 roundings. Gradients of some functions are large near 0.
  const Tensor dy = randn({70, 1003}, dtype, 10);
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  add(#name, name(x), 64, 10);                       \
  add(#name " gradient", detail::function_gradient(#name, simd::Function::name, dy, x), 64);
#include <attune/tensor/functions.inc>
  add("power", power(abs(x), 2.7), 64);
  add("powers", power(abs(x), x), 64);
  add("power gradient", detail::power_gradient(dy, abs(x), 2.7), 64);
  add("normal", normal({70, 1003}, random, dtype), 64);
  add("uniform", uniform({70, 1003}, random, -1, 1, dtype), 4);
  add("sum of squares", scalar(sum_of_squares(x), DType::f64), 2 * 70 * 1003);
  // The exponent x - max is below 10 in magnitude: rounding it changes the result by up to 10 u.
  add("softmax", softmax(x, 1), 1003 + 100);
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
  const std::string file = (directory / "results").string();
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

}  // namespace attune
