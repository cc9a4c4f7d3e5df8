#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {
thread_local constinit Random* training_random = nullptr;
}

Training::Training(Random& random) : before_(std::exchange(training_random, &random)) {}
Training::~Training() { training_random = before_; }
Random* Training::random() { return training_random; }

Dropout::Dropout(double rate) : rate_(rate) {
  if (!(rate >= 0 && rate < 1)) fail("dropout", fmt::format("the rate {} is not in [0, 1)", rate));
}

Var Dropout::operator()(const Var& x) const {
  Random* random = Training::random();
  if (!random || rate_ == 0) return x;
  const Tensor mask = visit_floating("dropout", x.value(), [&](auto zero) {
    using T = decltype(zero);
    Tensor m = Tensor::uninitialized(x.shape(), x.dtype());
    T* values = m.mutable_data<T>();
    const auto limit = static_cast<std::uint32_t>(rate_ * 0x1p32);
    const T kept = static_cast<T>(1 / (1 - rate_));
    for (Index i = 0; i < m.size(); ++i) values[i] = random->bits() < limit ? T(0) : kept;
    return m;
  });
  return x * mask;
}

}  // namespace attune::nn
