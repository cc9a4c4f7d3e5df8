// Named tensors in a file of the safetensors format: eight bytes with the length of the header, a
// JSON header with dtype, shape and byte offsets of every tensor, and the bytes of the tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// Metadata of a file: names and values, both strings, as the format requires.
using Metadata = std::map<std::string, std::string>;

/// The contents of a safetensors file.
struct Safetensors {
  std::map<std::string, Tensor, std::less<>> tensors;
  Metadata metadata;
  /// Checksum of the file that was read, already verified; empty if the file has none.
  std::string checksum = {};
  /// Tensors that could not be converted: their names, and the error that `find` throws for each.
  std::map<std::string, std::string, std::less<>> refused = {};

  /// Throws if a tensor of that name exists.
  void add(const std::string& name, Tensor tensor);
  /// The tensor of that name, or null. Throws if it is in `refused`.
  const Tensor* find(std::string_view name) const&;
  const Tensor* find(std::string_view name) const&& = delete;  // keep the contents in a variable
};

/// Writes all tensors and the metadata. Throws an Error if that fails; the old file is
/// then unchanged.
///
/// Two entries are added to the metadata, to detect damage when the file is read:
/// "attune.checksum_function" is "XXH3-64", and "attune.checksum" is the XXH3-64 hash as 16
/// hexadecimal digits. The hash covers: the number of other metadata entries; name and value of
/// each; then, for each tensor, its name, its dtype (F32, F64, I32), its extents ("2,3") and its
/// bytes. Entries and tensors are sorted by name. A number is 8 bytes, little-endian. Every string,
/// and the bytes of every tensor, are preceded by their length as such a number.
void save_safetensors(const std::filesystem::path& path, const Safetensors& contents);

/// Reads a file. Converts BF16 and F16 to f32, and other integers to i32. A tensor of another
/// dtype, or with an integer that does not fit in i32, is put into `refused`; the others are still
/// read. Checks every size against the file before allocating memory. Throws, with the path first,
/// for anything but a regular file, overlapping, missing or trailing bytes, and a wrong checksum.
Safetensors load_safetensors(const std::filesystem::path& path);

/// Reads the bytes of such a file from memory, for example data embedded in a program.
Safetensors load_safetensors(std::span<const std::byte> bytes);

}  // namespace attune
