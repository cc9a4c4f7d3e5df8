#include <attune/autograd/normalize.hpp>
#include <attune/autograd/record.hpp>
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

}  // namespace attune
