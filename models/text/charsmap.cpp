#include <cstdint>
#include <cstring>
#include <optional>

#include <attune/models/text/charsmap.hpp>
#include <attune/models/text/utf8.hpp>

namespace attune::text::detail {
namespace {

/// Takes a base-128 number off the front.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Calls visit(number, bytes), which may return false, for each field of a message whose value has
/// a length. False when one did, or the message is malformed.
template <class Visit>
bool all_fields(std::string_view message, Visit visit) {
  while (!message.empty()) {
    const auto tag = take_varint(message);
    if (!tag) return false;
    std::optional<std::uint64_t> size;
    switch (*tag & 7) {
      case 0:
        if (!take_varint(message)) return false;
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = take_varint(message);
        break;
      case 5:
        size = 4;
        break;
    }
    if (!size || *size > message.size()) return false;
    if ((*tag & 7) == 2 && !visit(*tag >> 3, message.substr(0, *size))) return false;
    message.remove_prefix(*size);
  }
  return true;
}

std::uint32_t number_at(std::string_view bytes, std::size_t i) {
  std::uint32_t number;
  std::memcpy(&number, bytes.data() + 4 * i, sizeof number);
  return number;
}

/// The length of a trie in bytes, the trie, and texts in UTF-8 that end with NUL; leaves point to
/// the first byte of a character of them. The trie is the array of Darts-clone: each unit leads to
/// 256 others, of which those with the right label are followed.
bool is_sound(std::string_view charsmap) {
  if (charsmap.empty()) return true;
  if (charsmap.size() < 4) return false;
  const std::uint32_t size = number_at(charsmap, 0);
  charsmap.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size >= charsmap.size() || charsmap.back() != '\0')
    return false;
  const std::size_t units = size / 4;
  const std::string_view texts = charsmap.substr(size);
  if (find_bad_byte(texts)) return false;
  const auto begins_character = [&](std::size_t at) {
    return at < texts.size() && (static_cast<unsigned char>(texts[at]) & 0xC0) != 0x80;
  };
  for (std::size_t i = 0; i < units; ++i) {
    const std::uint32_t unit = number_at(charsmap, i);
    if (i > 0 && unit >> 31 != 0) continue;  // the value of a leaf, which no label leads to
    const std::size_t next = i ^ (unit >> 10 << ((unit & 0x200) >> 6));
    if ((next | 0xFF) >= units) return false;
    if ((unit & 0x100) != 0 && !begins_character(number_at(charsmap, next) & 0x7FFFFFFF))
      return false;
  }
  return true;
}

}  // namespace

bool has_sound_charsmaps(std::string_view model) {
  constexpr std::uint64_t normalizer = 3, denormalizer = 5, precompiled_charsmap = 2;
  return all_fields(model, [](std::uint64_t number, std::string_view spec) {
    if (number != normalizer && number != denormalizer) return true;
    return all_fields(spec, [](std::uint64_t field, std::string_view charsmap) {
      return field != precompiled_charsmap || is_sound(charsmap);
    });
  });
}

}  // namespace attune::text::detail
