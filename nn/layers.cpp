#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

Linear::Linear(const Scope& scope, Index in, Index out, const LinearOptions& options)
    : W_(scope.add("W", {in, out}, options.weight_init)), path_(scope.path()) {
  if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
}

Var Linear::operator()(const Var& x) const {
  return detail::in_layer(path_, [&] { return Var(AffineLogits{x, affine()}); });
}

Embedding::Embedding(const Scope& scope, Index vocabulary, Index size, const Init& init)
    : E_(scope.add("E", {vocabulary, size}, init)), path_(scope.path()) {}

Var Embedding::operator()(const Tensor& ids) const {
  return detail::in_layer(path_, [&] { return gather(E_, ids); });
}

LayerNorm::LayerNorm(const Scope& scope, Index n, const LayerNormOptions& options)
    : gain_(scope.add("gain", {n}, init::constant(1))),
      bias_(scope.add("bias", {n}, init::zeros())),
      epsilon_(options.epsilon),
      path_(scope.path()) {}

Var LayerNorm::operator()(const Var& x) const {
  return detail::in_layer(path_, [&] { return layer_norm(x, gain_, bias_, epsilon_); });
}

namespace {

/// Windows over the steps; padding counts as zeros.
Var windows(const Sequence& sequence, const UnfoldOptions& options) {
  const auto& [x, mask] = sequence;
  if (!mask.defined()) return unfold(x, options);
  const Tensor steps = mask.reshape({mask.dim(0), mask.dim(1), 1});
  return unfold(where(steps, x, scalar(0, x.dtype())), options);
}

void check_sequence(const char* operation, const Sequence& sequence) {
  ShapeCheck check(operation);
  check("x", sequence.x.shape(), "T B D");
  if (sequence.mask.defined()) check("mask", sequence.mask.shape(), "T B");
}

}  // namespace

Conv1d::Conv1d(const Scope& scope, Index in, Index out, const Conv1dOptions& o)
    : windows_{.width = o.width, .stride = o.stride, .before = o.padding, .after = o.padding},
      linear_(scope, o.width * in, out, o.linear) {
  windows_of(0, windows_);  // throws unless the options make windows
}

Sequence Conv1d::operator()(const Sequence& sequence) const {
  check_sequence("Conv1d", sequence);
  const auto& [x, mask] = sequence;
  std::vector<Index> lengths{x.dim(0)};
  if (mask.defined()) lengths = lengths_of(mask);
  for (Index& length : lengths) {
    const Index steps = std::exchange(length, windows_of(length, windows_));
    if (length > 0) continue;
    fail("Conv1d",
         fmt::format("a sequence of {} steps with a padding of {} is shorter than a window of {}",
                     steps, windows_.before, windows_.width));
  }
  const Var y = linear_(windows(sequence, windows_));
  if (!mask.defined()) return {y, mask};
  const Tensor steps =
      lengths.empty() ? zeros({y.dim(0), 0}, mask.dtype()) : mask_of(lengths, mask.dtype());
  return {slice(y, 0, 0, steps.dim(0)), steps};  // y is longer if all sequences have padding
}

Sequence join_steps(const Sequence& sequence, Index n) {
  check_sequence("join_steps", sequence);
  if (n < 1) fail("join_steps", fmt::format("n = {} is less than 1", n));
  const Tensor& mask = sequence.mask;
  const UnfoldOptions joined{.width = n, .stride = n, .after = n - 1};
  return {windows(sequence, joined),
          mask.defined() ? unfold(mask.reshape({mask.dim(0), mask.dim(1), 1}), {.stride = n})
                               .reshape({(mask.dim(0) + n - 1) / n, mask.dim(1)})
                         : mask};
}

namespace {

/// 1 where position t of a sentence may attend to position s: (B, T, T), or (T, T) for all
/// sentences. Undefined: everywhere.
Tensor allowed_positions(const Tensor& mask, Index steps, Causal causal, DType dtype) {
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
                              allowed_positions(mask, steps, options_.causal, x.dtype()));
  const Var read = permute(batched_matmul(weights, v), {2, 1, 0, 3});  // (T, B, heads, D / heads)
  return {output_(reshape(read, {steps, batch, size})), weights};
}

}  // namespace attune::nn
