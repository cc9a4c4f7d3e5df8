// Whether another program computes the same thing.
#pragma once

#include <filesystem>

namespace attune::bench {

/// Reads a safetensors file with weights, a batch, its loss and the gradients, as
/// bench/peers/npz_to_safetensors.py writes it, and prints the largest relative difference of the
/// loss and of each gradient computed here. False when the loss differs by more than 1e-4, or a
/// gradient by more than 1e-3 of its largest element.
bool check(const std::filesystem::path& path);

}  // namespace attune::bench
