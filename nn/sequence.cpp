#include <utility>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/sequence.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// Windows over it, with zeros where there is padding.
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
  windows_of(0, windows_);  // throws where they make no windows
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
  const Tensor places =
      lengths.empty() ? zeros({y.dim(0), 0}, mask.dtype()) : mask_of(lengths, mask.dtype());
  return {slice(y, 0, 0, places.dim(0)), places};  // y is longer if all sequences have padding
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

}  // namespace attune::nn
