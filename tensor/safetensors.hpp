// Named tensors in a file, in the safetensors format: eight bytes of header length, a JSON header
// with dtype, shape and place of every tensor, and their bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The contents of a safetensors file. Metadata are strings only, by the format.
struct Safetensors {
  std::map<std::string, Tensor, std::less<>> tensors;
  std::map<std::string, std::string> metadata;

  /// Throws when there is a tensor of that name.
  void add(const std::string& name, Tensor tensor);
  /// The tensor of that name, or null.
  const Tensor* find(std::string_view name) const;
};

/// Writes all tensors, or changes nothing and throws.
void save_safetensors(const std::filesystem::path& path, const Safetensors& contents);

/// Reads a file of f32, f64 and i32 tensors. Every size is checked against the file before anything
/// is allocated; overlapping, missing or trailing bytes are errors, and so is anything but a
/// regular file. Messages begin with the path.
Safetensors load_safetensors(const std::filesystem::path& path);

}  // namespace attune
