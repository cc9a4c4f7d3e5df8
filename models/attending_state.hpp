// What a decoder with attention and one recurrent state carries from word to word.
#pragma once

#include <attune/models/decoder.hpp>
#include <attune/nn/attention.hpp>

namespace attune::models {

struct AttendingState {
  nn::Memory memory;
  nn::Past past;
  nn::RecurrentState s;
};

inline AttendingState select(const AttendingState& state, const Tensor& rows) {
  return {nn::select(state.memory, rows), nn::select(state.past, rows), nn::select(state.s, rows)};
}

}  // namespace attune::models
