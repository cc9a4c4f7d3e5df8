#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

namespace attune {
namespace {

struct CodePoint {
  std::uint32_t value;
  std::size_t bytes;  // 0: not UTF-8
};

/// That at the start of a text which is not empty.
CodePoint first_of(std::string_view text) {
  constexpr std::uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};  // of so many bytes
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const auto bytes = static_cast<std::size_t>(std::countl_one(byte(0)));
  if (bytes < 2 || bytes > 4 || bytes > text.size()) return {0, 0};
  std::uint32_t value = byte(0) & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < smallest[bytes] || value > 0x10FFFF || is_surrogate) return {0, 0};
  return {value, bytes};
}

bool is_shown(std::uint32_t c) {
  return !(c < 0x20 || (c >= 0x7F && c <= 0x9F) || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069));
}

std::string escape(std::uint32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return c < 0x80 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
  }
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [c, bytes] = first_of(text);
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_shown(c) || (bytes == 1 && kept.find(text[0]) != kept.npos)) {
      out += text.substr(0, bytes);
    } else {
      out += escape(c);
    }
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return out;
}

}  // namespace attune
