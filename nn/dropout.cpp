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
    for (Index i = 0; i < mask.size(); ++i) values[i] = random->bits() < limit ? T(0) : kept;
  });
  return mask;
}

Var Dropout::operator()(const Var& x) const {
  const bool shared = kind_ == DropoutKind::per_sequence && x.rank() == 3;
  const Tensor mask = draw(shared ? x.shape().without(0) : x.shape(), x.dtype());
  return mask.defined() ? x * mask : x;
}

}  // namespace attune::nn
