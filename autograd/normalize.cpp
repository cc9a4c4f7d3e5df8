#include <fmt/format.h>

#include <attune/autograd/normalize.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>

namespace attune {

Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon) {
  LayerNormForward forward = layer_norm_forward(x.value(), gain.value(), bias.value(), epsilon);
  const Tensor y = std::exchange(forward.y, {});  // backward does not need it
  return record("layer_norm", y)
      .joint({x, gain, bias},
             [forward, x = x.value(), gain = gain.value()](auto dy, const auto& slots) {
               const auto& [dx, dgain, dbias] = slots;
               const LayerNormBackward d = layer_norm_backward(x, gain, forward, dy[0]);
               if (dx) dx->add(d.dx);
               if (dgain) dgain->add(d.dgain);
               if (dbias) dbias->add(d.dbias);
             });
}

Var sparsemax(const Var& x, int axis, const Tensor& mask) {
  const Tensor y = sparsemax(x.value(), axis, mask);
  return record("sparsemax", y).wrt(x, [y, axis](const Tensor& dy) {
    return sparsemax_backward(y, dy, axis);
  });
}

Var cosine_similarity(const Var& a, const Var& b, int axis, double epsilon) {
  const Shape shape = broadcast("cosine_similarity", a.shape(), b.shape());
  const int from_end = axis < 0 ? axis : axis - shape.rank();
  const int shared = std::min(a.rank(), b.rank());
  if (from_end >= 0 || from_end < -shared || a.dim(from_end) != b.dim(from_end)) {
    fail("cosine_similarity", fmt::format("axis {} must have the same extent in {} and {}", axis,
                                          to_string(a.shape()), to_string(b.shape())));
  }
  const Var lengths = norm(a, from_end, KeepAxes::yes) * norm(b, from_end, KeepAxes::yes);
  const Var cosine =
      sum(a * b, {from_end}, KeepAxes::yes) / maximum(lengths, scalar(epsilon, lengths.dtype()));
  return reshape(cosine, shape.without(from_end));
}

}  // namespace attune
