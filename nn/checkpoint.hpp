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

/// Tensors with the names that they have in a file, sharing elements with what they stand for.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Those that are kept beside each parameter, as "PREFIX.PATH", but for undefined ones.
NamedTensors beside_parameters(const Parameters& parameters, const std::string& prefix,
                               std::span<const Tensor> tensors);

void save_tensors(const NamedTensors& tensors, Safetensors& file);

/// Overwrites all of them. Throws, before any has changed, when one is missing or has another shape
/// or dtype.
void load_tensors(const Safetensors& file, const NamedTensors& tensors);

/// An entry of the metadata: as it stands, as a count (0 to 2^53), and as a number from `low` to
/// `high`. Throw when it is missing or anything else.
const std::string& load_text(const Metadata& metadata, const std::string& name);
std::int64_t load_count(const Metadata& metadata, const std::string& name);
double load_number(const Metadata& metadata, const std::string& name, double low, double high);

}  // namespace attune::nn
