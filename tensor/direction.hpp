// The direction in which a sequence is walked through.
#pragma once

#include <attune/tensor/dtype.hpp>

namespace attune {

/// The order in which a recurrence visits the steps.
enum class Direction { forward, backward };

/// The step that a direction visits last: where its last state stands.
inline Index last_step(Index steps, Direction direction) {
  return direction == Direction::forward ? steps - 1 : 0;
}

}  // namespace attune
