// Layer normalisation inside recurrent cells.
#pragma once

#include <attune/autograd/var.hpp>

namespace attune::nn {

/// Whether a cell normalises what its gates add up (Ba, Kiros and Hinton, 2016); see Lstm and Gru.
enum class CellNorm { none, layer };

namespace detail {

/// The input's share of a cell's G gates, x W_x + b: (..., in) -> (..., G·H). With a gain_x (G·H),
/// LN(x W_x; gain_x) + b of each gate by itself.
Var input_share(const Var& x, const Var& w_x, const Var& gain_x, const Var& b, Index gates);

}  // namespace detail
}  // namespace attune::nn
