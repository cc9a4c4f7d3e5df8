// Numbers of a checkpoint's metadata.
#pragma once

#include <charconv>
#include <map>
#include <string>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::nn {

/// Throws when there is none of that name, or it is not a number of that type.
template <class T>
T read_number(const std::map<std::string, std::string>& metadata, const std::string& name) {
  const auto entry = metadata.find(name);
  if (entry == metadata.end()) fail("checkpoint", fmt::format("there is no '{}' in it", name));
  const std::string& text = entry->second;
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("checkpoint", fmt::format("{} is '{}', not a number", name, text));
  }
  return value;
}

}  // namespace attune::nn
