#include <attune/autograd/attention.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

Memory select(const Memory& memory, const Tensor& rows) {
  const auto columns = [&](const Tensor& x) { return x.defined() ? gather_columns(x, rows) : x; };
  return {.h = columns(memory.h.value()),
          .mask = columns(memory.mask),
          .keys = {.values = columns(memory.keys.values.value()),
                   .mask = columns(memory.keys.mask),
                   .positions = columns(memory.keys.positions)}};
}

Memory Attention::remember(const Var& h, const Tensor& mask) const {
  ShapeCheck("attention")("h", h.shape(), "S B D")("mask", mask.shape(), "S B");
  return {.h = h, .mask = mask, .keys = score_->keys(h, mask)};
}

Attended Attention::operator()(const Query& query, const Memory& memory) const {
  const Var weights = softmax((*score_)(query, memory.keys), 0, memory.mask);
  return {weighted_sum(weights, memory.h), weights};
}

}  // namespace attune::nn
