#include <algorithm>
#include <cmath>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/record.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/ctc.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {

namespace {

/// Throws unless targets, and the mask if defined, have the shape of x without its last axis.
void check_shapes(const char* operation, const char* name, const Var& x, const Tensor& targets,
                  const Tensor& mask) {
  if (x.shape().without(-1) != targets.shape() ||
      (mask.defined() && mask.shape() != targets.shape())) {
    fail(operation, "shapes do not fit: {} {}, targets {}, mask {}", name, x.shape(),
         describe(targets), describe(mask));
  }
}

/// The mask with one axis, in the dtype of x; undefined if the mask is. Fractions are weights.
/// Throws for negative or infinite values: an additive mask (0 and -∞) would mean the opposite.
Tensor flat_mask(const char* operation, const Tensor& mask, const Var& x) {
  if (!mask.defined()) return mask;
  for (const double weight : mask.to_vector<double>()) {
    if (!(weight >= 0 && std::isfinite(weight)))
      fail(operation, "the mask must be 1 (takes part) or 0, but has {}", weight);
  }
  return mask.to(x.dtype()).reshape({-1});
}

/// Scale factor of the reduction.
double scale_of(const char* operation, Reduction reduction, const Tensor& mask, Index rows) {
  if (reduction == Reduction::sum) return 1;
  const double count = mask.defined() ? sum(mask).item() : static_cast<double>(rows);
  if (count == 0) fail(operation, "there is no position with mask 1");
  return 1 / count;
}

/// d · by; 0 if `by` is 0, even where d is not finite.
Tensor scaled(const Tensor& d, double by) { return by == 0 ? zeros(d.shape(), d.dtype()) : d * by; }

/// Bytes of the logits of one block, which fit in a shared cache; and the fewest rows of a block:
/// each block reads and writes the whole gradient of W, which is slow for few rows.
constexpr Index block_bytes = Index{8} << 20, least_rows = 256;

/// Gradients with respect to x (N, R), W and b; undefined if not needed.
struct AffineGradients {
  Tensor x, W, b;
};

/// The loss summed over all rows of x (N, R), block by block. Computes the defined gradients in
/// `d`: that of x is overwritten, those of W and b are added to.
double sum_over_blocks(const Tensor& x, const Affine& affine, const Tensor& targets,
                       const Tensor& mask, double scale, const Smoothing& smoothing,
                       AffineGradients& d) {
  const Tensor &W = affine.W.value(), &b = affine.b.value();
  const bool transposed = affine.transposed;
  const Index n = x.dim(0), v = W.dim(transposed ? 0 : 1);
  const Index size = x.dtype() == DType::f32 ? 4 : 8;
  const Index block = std::max(least_rows, block_bytes / std::max<Index>(1, v * size) / 64 * 64);
  const bool recorded = d.x.defined() || d.W.defined() || d.b.defined();
  double total = 0;
  for (Index begin = 0; begin == 0 || begin < n; begin += block) {  // once for n = 0, to check
    const auto rows = [&](const Tensor& of) {
      return of.defined() ? of.slice(begin, std::min(n, begin + block)) : of;
    };
    const Tensor x_rows = rows(x), target_rows = rows(targets), mask_rows = rows(mask);
    Tensor logits = add_matmul(b, x_rows, W, {.b = transposed});
    const CrossEntropy result = cross_entropy_forward(logits, target_rows, mask_rows, smoothing);
    total += sum(result.loss).item();
    if (!recorded) continue;
    const Tensor dlogits = cross_entropy_backward(std::move(logits), target_rows, mask_rows,
                                                  result.norms, scale, smoothing);
    Tensor dx = rows(d.x);
    if (dx.defined()) copy(matmul(dlogits, W, {.b = !transposed}), dx);  // dlogits·Wᵀ
    if (d.W.defined())
      transposed ? add_product(dlogits, x_rows, d.W) : add_product(x_rows, dlogits, d.W);
    if (d.b.defined()) add_in_place(d.b, sum(dlogits, {0}));
  }
  return total;
}

void check_affine(const Var& x, const Affine& affine, const Tensor& targets, const Tensor& mask) {
  ShapeCheck check("affine_cross_entropy");
  check("x", x, "... R")("W", affine.W, affine.transposed ? "V R" : "R V");
  require_same_dtype("affine_cross_entropy", x.value(), affine.W.value());
  if (affine.b.defined()) {
    check("b", affine.b, "V");
    require_same_dtype("affine_cross_entropy", x.value(), affine.b.value());
  }
  check_shapes("affine_cross_entropy", "x", x, targets, mask);
  checked_ids("affine_cross_entropy", "target", targets, check['V']);
}

/// Broadcasting would give the mean over all pairs of elements.
void require_same_shape(const char* operation, const Var& y, const Var& target) {
  if (y.shape() != target.shape())
    fail(operation, "{} and the target {} differ", y.shape(), target.shape());
}

Var reduced(const Var& losses, Reduction reduction) {
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

/// Cross-entropy with target distributions q (..., V).
Var soft_cross_entropy(const Var& logits, const Var& q, const Tensor& mask,
                       const CrossEntropyOptions& options) {
  if (q.shape() != logits.shape() || q.dtype() != logits.dtype() ||
      (mask.defined() && mask.shape() != logits.shape().without(-1))) {
    fail("cross_entropy", "do not fit: logits {}, targets {}, mask {}", describe(logits.value()),
         describe(q.value()), describe(mask));
  }
  if (options.smoothing != 0)
    fail("cross_entropy", "label smoothing of target distributions is not supported");
  const Var log_p = log_softmax(logits);
  const Mask counts = maximum(q != 0, isfinite(log_p.value()));  // 0 log 0 = 0
  const Var losses = -sum(where(counts, q * log_p, 0.0), -1);
  const Tensor weights = flat_mask("cross_entropy", mask, logits);
  const double scale = scale_of("cross_entropy", options.reduction, weights, losses.size());
  if (!weights.defined()) return sum(losses) * scale;
  return sum(where(weights != 0, reshape(losses, {-1}), 0.0) * weights) * scale;
}

}  // namespace

Var mse_loss(const Var& y, const Var& target, Reduction reduction) {
  require_same_shape("mse_loss", y, target);
  return reduced(square(y - target), reduction);
}

Var binary_cross_entropy_with_logits(const Var& logits, const Var& targets, Reduction reduction) {
  require_same_shape("binary_cross_entropy_with_logits", logits, targets);
  return reduced(targets * softplus(-logits) + (1 - targets) * softplus(logits), reduction);
}

Var cross_entropy(const Var& logits, const Var& target, const Tensor& mask,
                  const CrossEntropyOptions& options) {
  if (target.defined() && is_floating(target.dtype()))
    return soft_cross_entropy(logits, target, mask, options);
  const Tensor& targets = target.value();
  ShapeCheck("cross_entropy")("logits", logits, "... V");
  check_shapes("cross_entropy", "logits", logits, targets, mask);
  const Tensor rows = logits.value().reshape({-1, logits.dim(-1)});
  const Tensor flat_targets = targets.reshape({-1}),
               weights = flat_mask("cross_entropy", mask, logits);
  const CrossEntropy result =
      cross_entropy_forward(rows, flat_targets, weights, {options.smoothing, options.unsmoothed});
  const double scale = scale_of("cross_entropy", options.reduction, weights, rows.dim(0));
  return record("cross_entropy", sum(result.loss) * scale)
      .joint(
          {logits},
          [=, norms = result.norms, o = options](auto& in, auto dy, auto& dx) {
            const Tensor of = in[0].reshape({-1, in[0].dim(-1)});
            dx[0]->add(cross_entropy_backward(of, flat_targets, weights, norms,
                                              scale * dy[0].item(), {o.smoothing, o.unsmoothed})
                           .reshape(in[0].shape()));
          },
          [=](auto in) {
            return std::vector{reference::cross_entropy(in[0], targets, mask, options)};
          });
}

AffineLogits::operator Var() const {
  if (!affine.W.defined()) return x;
  return add_matmul(affine.b, x, affine.W, {.b = affine.transposed});
}

Var affine_cross_entropy(const Var& x, const Affine& affine, const Tensor& targets,
                         const Tensor& mask, const CrossEntropyOptions& options) {
  if (!affine.W.defined()) return cross_entropy(x, targets, mask, options);
  check_affine(x, affine, targets, mask);
  const Tensor all = x.value().reshape({-1, x.dim(-1)}),
               flat = flat_mask("affine_cross_entropy", mask, x);
  Tensor rows;  // indices of the rows with a nonzero mask; undefined: all rows
  if (flat.defined() && attune::all(flat).item() == 0) rows = nonzero(flat).reshape({-1});
  const auto used = [&](const Tensor& of) { return rows.defined() ? gather(of, rows) : of; };
  const Tensor weights = flat.defined() ? used(flat) : flat;
  const double scale = scale_of("affine_cross_entropy", options.reduction, weights, all.dim(0));
  AffineGradients d;
  const Tensor x_rows = used(all);
  if (recorded(x)) d.x = Tensor::uninitialized(x_rows.shape(), x.dtype());
  if (recorded(affine.W)) d.W = zeros(affine.W.shape(), x.dtype());
  if (recorded(affine.b)) d.b = zeros(affine.b.shape(), x.dtype());
  const double total = sum_over_blocks(x_rows, affine, used(targets.reshape({-1})), weights, scale,
                                       {options.smoothing, options.unsmoothed}, d);
  if (d.x.defined() && rows.defined()) {
    Tensor dx = zeros(all.shape(), x.dtype());
    scatter_add_in_place(dx, rows, d.x);
    d.x = std::move(dx);
  }
  if (d.x.defined()) d.x = d.x.reshape(x.shape());
  return record("affine_cross_entropy", scalar(scale * total, x.dtype()))
      .joint(
          {x, affine.W, affine.b},
          [d = std::move(d)](auto&, auto dy, auto& slots) mutable {
            const double by = dy[0].item();
            Tensor* gradients[] = {&d.x, &d.W, &d.b};
            for (std::size_t i = 0; i < 3; ++i) {
              if (slots[i])
                slots[i]->add(by == 1 ? std::move(*gradients[i]) : scaled(*gradients[i], by));
            }
          },
          [=, transposed = affine.transposed](auto in) {
            const Var logits = add_matmul(in[2], in[0], in[1], {.b = transposed});
            return std::vector{reference::cross_entropy(logits, targets, mask, options)};
          });
}

Var ctc_loss(const Var& logits, const Mask& mask, const Tensor& labels, const Mask& labels_mask,
             const CtcLossOptions& options) {
  const double scale = scale_of("ctc_loss", options.reduction, labels_mask, labels.size());
  Ctc result = ctc({logits.value(), mask, labels, labels_mask, options.blank}, recorded(logits));
  return record("ctc_loss", sum(result.loss) * scale)
      .joint(
          {logits},
          [scale, d = std::move(result.dlogits)](auto&, auto dy, auto& dx) {
            dx[0]->add(scaled(d, scale * dy[0].item()));
          },
          [=, blank = options.blank](auto in) {
            return std::vector{scale *
                               reference::ctc_loss(in[0], mask, labels, labels_mask, blank)};
          });
}

}  // namespace attune
