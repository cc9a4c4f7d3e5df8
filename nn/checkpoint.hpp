// Parameters to and from a safetensors file.
#pragma once

#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

/// Adds every parameter to a file, under its path. The tensors are shared, not copied: write the
/// file before the next update.
void save_parameters(const Parameters& parameters, Safetensors& file);

/// Overwrites every parameter with the tensor of its path. Throws, before any has changed, when one
/// is missing or has another shape or dtype. Other tensors of the file are ignored.
void load_parameters(const Safetensors& file, Parameters& parameters);

/// The tensor of that name. Throws when there is none, or one with another shape or dtype.
const Tensor& find_tensor(const Safetensors& file, const std::string& name, const Shape& shape,
                          DType dtype);

/// Throws unless there is a tensor of that name with the shape and dtype of `to`.
void check_tensor(const Safetensors& file, const std::string& name, const Tensor& to);

/// check_tensor, and then `to` is overwritten.
void load_tensor(const Safetensors& file, const std::string& name, Tensor& to);

/// A count (0 to 2^53) from the metadata; throws when it is missing or anything else.
std::int64_t load_count(const Safetensors& file, const std::string& name);

}  // namespace attune::nn
