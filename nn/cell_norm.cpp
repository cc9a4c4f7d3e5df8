#include <attune/autograd/normalize.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/cell_norm.hpp>

namespace attune::nn {

namespace detail {

Var input_share(const Var& x, const Var& w_x, const Var& gain_x, const Var& b, Index gates) {
  return gain_x.defined() ? layer_norm_blocks(matmul(x, w_x), gain_x, b, gates)
                          : add_matmul(b, x, w_x);
}

}  // namespace detail
}  // namespace attune::nn
