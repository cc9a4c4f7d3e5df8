// Named tensors in a file, in the safetensors format: eight bytes of header length, a JSON header
// with dtype, shape and place of every tensor, and their bytes.
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

/// What a file says beside its tensors: strings only, by the format.
using Metadata = std::map<std::string, std::string>;

/// The contents of a safetensors file.
struct Safetensors {
  std::map<std::string, Tensor, std::less<>> tensors;
  Metadata metadata;
  /// The checksum of the file that this was read from, after it was verified; empty without one.
  std::string checksum = {};
  /// Tensors of the file that are not in `tensors`, by name, and why: what `find` throws of them.
  std::map<std::string, std::string, std::less<>> refused = {};

  /// Throws when there is a tensor of that name.
  void add(const std::string& name, Tensor tensor);
  /// The tensor of that name, or null. Throws when it is refused.
  const Tensor* find(std::string_view name) const;
};

/// Writes all tensors, or changes nothing and throws.
///
/// The file gets two more entries of metadata, by which damage is noticed when it is read:
/// "attune.checksum_function" is "XXH3-64", and "attune.checksum" has that function's value, as 16
/// hexadecimal digits, of these texts in turn: how many other entries of metadata there are; of
/// each its name and text; of each tensor its name, its dtype (F32, F64, I32), its extents ("2,3")
/// and its bytes. Entries and tensors are in the order of their names; a number is 8 bytes, the
/// lowest first, and such a number with its length stands before each text.
void save_safetensors(const std::filesystem::path& path, const Safetensors& contents);

/// Reads a file. BF16 and F16 become f32, and other integers i32; a tensor of another dtype, or with
/// an integer that no i32 holds, is refused, but not the file. Every size is checked against the file before anything
/// is allocated; overlapping, missing or trailing bytes are errors, and so are another checksum
/// than that of the contents and anything but a regular file. Messages begin with the path.
Safetensors load_safetensors(const std::filesystem::path& path);

/// The same of the bytes of such a file, which may be part of a program.
Safetensors load_safetensors(std::span<const std::byte> bytes);

}  // namespace attune
