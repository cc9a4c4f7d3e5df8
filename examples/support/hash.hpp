// A number for what a run was trained on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace attune {

/// FNV-1a, of words instead of bytes: another value, almost surely, when a word has changed.
class Hash {
 public:
  void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3; }
  /// Their number, and each of them.
  void add(const std::vector<std::int32_t>& ids) {
    add(ids.size());
    for (const std::int32_t id : ids) add(static_cast<std::uint64_t>(id));
  }
  void add(std::string_view text) {
    add(text.size());
    // A char has a sign on some processors.
    for (const char byte : text) add(std::uint64_t{static_cast<unsigned char>(byte)});
  }
  /// In hexadecimal.
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

}  // namespace attune
