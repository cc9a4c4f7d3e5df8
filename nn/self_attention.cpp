#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/self_attention.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// 1 where place t of sentence b may look at place s: (B, heads, T, T)
Tensor allowed_places(const Tensor& mask, Index steps, Index batch, DType dtype,
                      const SelfAttentionOptions& options) {
  const std::vector<double> words =
      mask.defined() ? mask.to_vector<double>()
                     : std::vector<double>(static_cast<std::size_t>(steps * batch), 1);
  std::vector<double> allowed;
  allowed.reserve(static_cast<std::size_t>(batch * options.heads * steps * steps));
  for (Index b = 0; b < batch; ++b) {
    for (Index head = 0; head < options.heads; ++head) {
      for (Index t = 0; t < steps; ++t) {
        for (Index s = 0; s < steps; ++s) {
          const bool later = options.causal == Causal::yes && s > t;
          allowed.push_back(later ? 0 : words[static_cast<std::size_t>(s * batch + b)]);
        }
      }
    }
  }
  return Tensor::of(Shape{batch, options.heads, steps, steps}, std::span<const double>(allowed))
      .to(dtype);
}

}  // namespace

SelfAttention::SelfAttention(const Scope& scope, Index size, const SelfAttentionOptions& options)
    : options_(options),
      W_q_(scope.add("W_q", {size, size}, init::glorot())),
      W_k_(scope.add("W_k", {size, size}, init::glorot())),
      W_v_(scope.add("W_v", {size, size}, init::glorot())),
      output_(scope / "output", size, size) {
  if (options.heads < 1 || size % options.heads != 0) {
    fail("SelfAttention", fmt::format("{} heads do not divide a size of {}", options.heads, size));
  }
}

/// (T, B, D) -> (B, heads, T, D / heads)
Var SelfAttention::heads_of(const Var& x) const {
  const Index heads = options_.heads;
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {1, 2, 0, 3});
}

SelfAttended SelfAttention::operator()(const Var& x, const Tensor& mask) const {
  ShapeCheck check("SelfAttention");
  check("x", x.shape(), "T B D");
  if (mask.defined()) check("mask", mask.shape(), "T B");
  const Index steps = check['T'], batch = check['B'], size = check['D'];
  const Var q = heads_of(matmul(x, W_q_)), k = heads_of(matmul(x, W_k_)),
            v = heads_of(matmul(x, W_v_));
  const double scale = 1 / std::sqrt(static_cast<double>(size / options_.heads));
  const Var weights = softmax(batched_matmul(q * scale, k, {.b = true}), -1,
                              allowed_places(mask, steps, batch, x.dtype(), options_));
  const Var read = permute(batched_matmul(weights, v), {2, 0, 1, 3});  // (T, B, heads, D / heads)
  return {output_(reshape(read, {steps, batch, size})), weights};
}

}  // namespace attune::nn
