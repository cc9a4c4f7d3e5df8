// Accuracy of sequences.
#pragma once

#include <span>
#include <string>

#include <attune/tensor/shape.hpp>

namespace attune::metrics {

/// Characters (tokens) that agree, position by position, over the length of the longer of the two;
/// 1 for two empty ones.
double position_accuracy(std::span<const std::string> written,
                         std::span<const std::string> expected);

}  // namespace attune::metrics
