#include <fmt/format.h>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/softmax.hpp>

namespace attune {

Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask,
                  const CrossEntropyOptions& options) {
  ShapeCheck("cross_entropy")("logits", logits.shape(), "... V");
  if (logits.shape().without(-1) != targets.shape() ||
      (mask.defined() && mask.shape() != targets.shape())) {
    fail("cross_entropy", fmt::format("logits {}, targets {}, mask {}", to_string(logits.shape()),
                                      to_string(targets.shape()), to_string(mask.shape())));
  }
  const Tensor rows = logits.value().reshape({-1, logits.dim(-1)});
  const Tensor flat_targets = targets.reshape({-1}),
               flat_mask = mask.defined() ? mask.reshape({-1}) : mask;
  const CrossEntropy result =
      cross_entropy_forward(rows, flat_targets, flat_mask, options.smoothing);
  const double count = mask.defined() ? sum(flat_mask).item() : static_cast<double>(rows.dim(0));
  const bool mean = options.reduction == Reduction::mean;
  if (mean && count == 0) fail("cross_entropy", "there is no position with mask 1");
  const double scale = mean ? 1 / count : 1;
  return record("cross_entropy", sum(result.loss) * scale)
      .wrt(logits, [=, shape = logits.shape(), norm = result.log_sum_exp,
                    smoothing = options.smoothing](const Tensor& dy) {
        return cross_entropy_backward(rows, flat_targets, flat_mask, norm, scale * dy.item(),
                                      smoothing)
            .reshape(shape);
      });
}

}  // namespace attune
