#include <fmt/format.h>

#include <attune/autograd/normalize.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/cell_norm.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

const char* name_of(CellNorm norm) { return norm == CellNorm::none ? "none" : "layer"; }

CellNorm cell_norm_of(std::string_view name) {
  for (CellNorm norm : {CellNorm::none, CellNorm::layer}) {
    if (name == name_of(norm)) return norm;
  }
  fail("cell_norm", fmt::format("'{}' is not none or layer", name));
}

namespace detail {

Var input_share(const Var& x, const Var& w_x, const Var& gain_x, const Var& b, Index gates) {
  return gain_x.defined() ? layer_norm_blocks(matmul(x, w_x), gain_x, b, gates)
                          : add_matmul(b, x, w_x);
}

}  // namespace detail
}  // namespace attune::nn
