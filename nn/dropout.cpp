#include <atomic>
#include <cstdio>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::nn {
namespace {
thread_local constinit Random* training_random = nullptr;

/// Elements of a mask that one thread draws.
constexpr Index elements_of_tile = 16 * 1024;
}  // namespace

Training::Training(Random& random) : before_(std::exchange(training_random, &random)) {}
Training::Training(std::nullptr_t) : before_(std::exchange(training_random, nullptr)) {}
Training::~Training() { training_random = before_; }
Random* Training::random() { return training_random; }

Var outside_of_training(const Var& x, const char* what) {
  if (!x.requires_gradient()) return x;
  return record("outside_of_training", x.value()).wrt(x, [what](const Tensor& dy) {
    static std::atomic_flag said;
    if (!said.test_and_set()) {
      std::fprintf(stderr,
                   "attune: warning: backward of a loss that was computed outside of "
                   "nn::Training: %s had no effect\n",
                   what);
    }
    return dy;
  });
}

Dropout::Dropout(double rate, DropoutKind kind) : rate_(rate), kind_(kind) {
  if (!(rate >= 0 && rate < 1)) fail("dropout", fmt::format("the rate {} is not in [0, 1)", rate));
}

Tensor Dropout::draw(const Shape& shape, DType dtype) const {
  Random* random = Training::random();
  if (!random || rate_ == 0) return {};
  Tensor mask = Tensor::uninitialized(shape, dtype, "dropout");
  visit_floating("dropout", mask, [&](auto zero) {
    using T = decltype(zero);
    T* values = mask.mutable_data<T>();
    const auto limit = static_cast<std::uint32_t>(rate_ * 0x1p32);
    const T kept = static_cast<T>(1 / (1 - rate_));
    parallel_ranges(mask.size(), elements_of_tile, [&](Index begin, Index end) {
      Random own = random->ahead(static_cast<std::uint64_t>(begin));
      std::array<std::uint32_t, 512> bits;
      for (Index i = begin; i < end; i += std::ssize(bits)) {
        const auto n = static_cast<std::size_t>(std::min(std::ssize(bits), end - i));
        own.bits(std::span(bits).first(n));
        for (std::size_t j = 0; j < n; ++j)
          values[i + static_cast<Index>(j)] = bits[j] < limit ? T(0) : kept;
      }
    });
  });
  *random = random->ahead(static_cast<std::uint64_t>(mask.size()));
  return mask;
}

Var Dropout::operator()(const Var& x) const {
  const bool shared = kind_ == DropoutKind::per_sequence && x.rank() == 3;
  const Tensor mask = draw(shared ? x.shape().without(0) : x.shape(), x.dtype());
  if (mask.defined()) return x * mask;
  return rate_ > 0 ? outside_of_training(x, "dropout") : x;
}

}  // namespace attune::nn
