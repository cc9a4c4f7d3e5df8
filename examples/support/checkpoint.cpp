#include "support/checkpoint.hpp"

#include <charconv>

#include <fmt/format.h>

namespace attune {

const std::string& entry(const std::map<std::string, std::string>& metadata,
                         const std::string& name) {
  const auto at = metadata.find(name);
  if (at == metadata.end()) fail("checkpoint", fmt::format("its metadata has no '{}'", name));
  return at->second;
}

double number_in(const std::map<std::string, std::string>& metadata, const std::string& name) {
  const std::string& text = entry(metadata, name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("checkpoint", fmt::format("'{}' is '{}', not a number", name, text));
  }
  return value;
}

void require_format(const Safetensors& file, const std::string& format) {
  const auto kind = file.metadata.find("format");
  if (kind == file.metadata.end() || kind->second != format) {
    fail("checkpoint",
         fmt::format("not one of this program ('{}' was expected as its format)", format));
  }
}

}  // namespace attune
