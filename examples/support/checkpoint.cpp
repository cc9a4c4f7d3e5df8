#include "support/checkpoint.hpp"

#include <charconv>

#include <fmt/format.h>

namespace attune {

const std::string& entry(const Metadata& metadata, const std::string& name) {
  const auto at = metadata.find(name);
  if (at == metadata.end()) fail("checkpoint", fmt::format("its metadata has no '{}'", name));
  return at->second;
}

double number_in(const Metadata& metadata, const std::string& name, double low, double high) {
  const std::string& text = entry(metadata, name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || !(value >= low && value <= high)) {
    fail("checkpoint",
         fmt::format("'{}' is '{}', not a number from {} to {}", name, text, low, high));
  }
  return value;
}

double seconds_in(const Metadata& metadata) { return number_in(metadata, "seconds", 0, 1e10); }

void require_format(const Safetensors& file, const std::string& format) {
  const auto kind = file.metadata.find("format");
  if (kind == file.metadata.end() || kind->second != format) {
    fail("checkpoint",
         fmt::format("not one of this program ('{}' was expected as its format)", format));
  }
}

void check_same(const char* operation, const std::filesystem::path& checkpoint,
                const Metadata& stored, const Metadata& given) {
  for (const auto& [name, value] : stored) {
    if (value == given.at(name)) continue;
    fail(operation, fmt::format("{} was trained with {} = '{}', not '{}'", checkpoint.string(),
                                name, value, given.at(name)));
  }
}

}  // namespace attune
