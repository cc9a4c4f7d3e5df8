// Cells that are written as a user would, from single operations.
#pragma once

#include <attune/autograd/reference.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::test {

/// The equations and the parameters of a cell of the library.
template <Cell cell>
struct PlainCell {
  PlainCell(const nn::Scope& scope, Index in, Index hidden)
      : W_x(scope.add("W_x", {in, gates() * hidden}, nn::init::glorot(gates()))),
        W_h(scope.add("W_h", {hidden, gates() * hidden}, nn::init::orthogonal(gates()))),
        b(scope.add("b", {gates() * hidden}, nn::init::normal(0.1))) {
    if (cell == Cell::gru) b_hn = scope.add("b_hn", {hidden}, nn::init::normal(0.1));
  }
  static Index gates() { return gates_of(cell); }
  Index size() const { return W_h.dim(0); }
  Var input(const Var& x) const { return add_matmul(b, x, W_x); }
  nn::RecurrentState step(const Var& xw, const nn::RecurrentState& s) const {
    const auto [h, c] = reference::recurrent(reshape(xw, xw.shape().inserted(0, 1)), W_h,
                                             {.cell = cell, .h0 = s.h, .c0 = s.c, .b_hn = b_hn});
    return {h[0], c};
  }

  Var W_x, W_h, b, b_hn;
};

/// Gives the parameters of `to` the values of those of `from`, which have the same names.
inline void copy_parameters(const nn::Parameters& from, nn::Parameters& to) {
  for (const auto& [name, w] : to) {
    Tensor values = w.value();
    copy(from[name].value(), values);
  }
}

}  // namespace attune::test
