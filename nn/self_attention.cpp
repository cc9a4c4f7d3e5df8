#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/self_attention.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// 1 where place t of a sentence may look at place s: (B, T, T), or (T, T) for all sentences.
/// Undefined: everywhere.
Tensor allowed_places(const Tensor& mask, Index steps, Causal causal, DType dtype) {
  Tensor allowed;
  if (causal == Causal::yes) {
    std::vector<float> before(steps * steps, 0);
    for (Index t = 0; t < steps; ++t) std::fill_n(before.begin() + t * steps, t + 1, 1.f);
    allowed = Tensor::of(Shape{steps, steps}, std::span<const float>(before)).to(dtype);
  }
  if (!mask.defined()) return allowed;
  const Tensor words = permute(attune::detail::binary_mask("SelfAttention", mask, dtype), {1, 0})
                           .reshape({mask.dim(1), 1, steps});
  return words * (allowed.defined() ? allowed : ones({steps, 1}, dtype));
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

/// (T, B, D) -> (heads, B, T, D / heads)
Var SelfAttention::heads_of(const Var& x) const {
  const Index heads = options_.heads;
  return permute(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {2, 1, 0, 3});
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
                              allowed_places(mask, steps, options_.causal, x.dtype()));
  const Var read = permute(batched_matmul(weights, v), {2, 1, 0, 3});  // (T, B, heads, D / heads)
  return {output_(reshape(read, {steps, batch, size})), weights};
}

}  // namespace attune::nn
