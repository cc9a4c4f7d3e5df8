// The JSON header of a safetensors file.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/safetensors.hpp>

namespace attune::detail {

/// What is wrong with a file, without its path.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Where a tensor's bytes are, counted from the end of the header.
struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Shape shape;
  std::size_t begin, end;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  Metadata metadata;
};

/// Reads the header of a file in which `available` bytes follow it. Throws Malformed unless the
/// entries take them up one after another, without gap, overlap or rest. Time and memory grow with
/// the text's length and no faster.
SafetensorsHeader parse_header(std::string_view text, std::size_t available);

/// As the format calls it.
const char* format_name(DType dtype);

/// The header of a file with these contents, tensors in the order of the map.
std::string header_text(const Safetensors& contents);

}  // namespace attune::detail
