// What a decoder's state, word and context add up to before the softmax.
#pragma once

#include <attune/nn/parameters.hpp>

namespace attune::models {

/// The sizes of what is added up; a context of 0 is none.
struct DeepOutputSizes {
  Index state, word, context = 0;
};

/// s U_o + y V_o + c C_o + b_o, before its activation: the "deep output" of Cho et al. (2014, A.1)
/// and of Bahdanau et al. (2014, A.2.2).
class DeepOutput {
 public:
  DeepOutput(const nn::Scope& scope, const DeepOutputSizes& in, Index out);

  /// s (..., H), y (..., E), c (..., C) -> (..., out); c is undefined where there is no context
  Var operator()(const Var& s, const Var& y, const Var& c) const;

 private:
  Var U_o_, V_o_, C_o_, b_o_;  // (H, out), (E, out), (C, out), (out)
};

}  // namespace attune::models
