// Some rows of a batch, for the states of decoders: what a search keeps of its hypotheses.
#pragma once

#include <vector>

#include <attune/autograd/var.hpp>
#include <attune/nn/recurrent_layer.hpp>
#include <attune/tensor/arrange.hpp>

namespace attune::nn {

/// Rows by number (i32), which may repeat: (B, ...) -> (rows, ...). Unrecorded; undefined stays so.
inline Var select(const Var& x, const Tensor& rows) {
  return x.defined() ? gather(x.value(), rows) : x;
}

/// The same of axis 1: (S, B, ...) -> (S, rows, ...).
inline Var select_columns(const Var& x, const Tensor& rows) {
  return x.defined() ? gather_columns(x.value(), rows) : x;
}

inline RecurrentState select(const RecurrentState& state, const Tensor& rows) {
  return {select(state.h, rows), select(state.c, rows)};
}

/// Of each layer, or whatever else has states of one kind.
template <class State>
std::vector<State> select(const std::vector<State>& states, const Tensor& rows) {
  std::vector<State> selected;
  for (const State& state : states) selected.push_back(select(state, rows));
  return selected;
}

}  // namespace attune::nn
