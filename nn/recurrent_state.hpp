// What all recurrent layers have in common.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune::nn {

/// The state of a recurrent cell. Undefined members are zero; a GRU has no c.
struct RecurrentState {
  Var h = {}, c = {};  // (B, H)
};

/// How to run over a sequence.
struct RunOptions {
  Tensor mask = {};  // (T, B), undefined: all words
  RecurrentState initial = {};
  Direction direction = Direction::forward;
};

/// States after every step, in the order of the input, and the one after the step visited last.
struct RecurrentOutput {
  Var h;  // (T, B, H)
  RecurrentState last;
};

}  // namespace attune::nn
