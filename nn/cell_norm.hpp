// Layer normalisation inside recurrent cells.
#pragma once

#include <functional>
#include <string_view>

#include <attune/autograd/var.hpp>
#include <attune/nn/recurrent_state.hpp>

namespace attune::nn {

/// Whether a cell normalises what its gates add up (Ba, Kiros and Hinton, 2016); see Lstm and Gru.
enum class CellNorm { none, layer };

/// "none" or "layer". `cell_norm_of` throws on any other name.
const char* name_of(CellNorm norm);
CellNorm cell_norm_of(std::string_view name);

namespace detail {

/// LN(x; gain) of each block of `hidden` elements by itself, such as the gates of a cell:
/// x (..., G·H), gain (G·H) -> (..., G·H). Without a gain it is x.
Var normalize_blocks(const Var& x, const Var& gain, Index hidden);

/// One step: xw_t (B, G·H), the state before -> the state after.
using CellStep = std::function<RecurrentState(const Var& xw, const RecurrentState& state)>;

/// A recurrence of single steps over xw (T, B, G·H) with w_h (H, G·H). Padding carries the state
/// over. The cell is named in errors.
RecurrentOutput run_steps(const char* cell, const Var& xw, const Var& w_h,
                          const RunOptions& options, const CellStep& step);

}  // namespace detail
}  // namespace attune::nn
