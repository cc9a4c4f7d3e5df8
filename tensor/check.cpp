#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

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
  return !(c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069));
}

std::string escape(std::uint32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return c < 0x20 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
}

/// 40000000000 -> "40 GB"
std::string in_words(std::size_t bytes) {
  constexpr const char* units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 999.5; ++unit) number /= 1000;
  return fmt::format("{:.3g} {}", number, units[unit]);
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [c, bytes] = first_of(text);
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else if (is_shown(c) || kept.find(text.substr(0, bytes)) != kept.npos) {
      out += text.substr(0, bytes);
    } else {
      out += escape(c);
    }
    text.remove_prefix(std::max<std::size_t>(1, bytes));
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string shown = printable(text.substr(0, longest + 4));  // no character has more bytes than 4
  if (shown.size() > longest) {
    std::size_t end = longest;
    while ((shown[end] & 0xC0) == 0x80) --end;  // within a character
    shown = shown.substr(0, end) + "…";
  }
  return "'" + shown + "'";
}

Error::Error(std::string_view message) : std::runtime_error(printable(message)) {}

void fail(std::string_view operation, std::string_view message) {
  const std::string* const path = detail::layer_path;
  const bool named = path && !path->empty();
  throw Error(
      fmt::format("{}: {}{}{}", operation, message, named ? ", in " : "", named ? *path : ""));
}

OutOfMemory::OutOfMemory(std::string_view operation, std::string what, std::size_t bytes)
    : Error(fmt::format("{}: there is no memory for {}{}{}",
                        operation.empty() ? "tensor" : operation, what, what.empty() ? "" : ", ",
                        in_words(bytes))),
      what_(std::move(what)),
      bytes_(bytes),
      named_(!operation.empty()) {}

void OutOfMemory::throw_as(std::string_view operation) const {
  if (named_) throw;
  throw OutOfMemory(operation, what_, bytes_);
}

Index checked_sum(const char* operation, std::initializer_list<Index> terms) {
  Index total = 0;
  for (const Index term : terms) {
    if (__builtin_add_overflow(total, term, &total)) {
      fail(operation, fmt::format("{} is too large a sum", fmt::join(terms, " + ")));
    }
  }
  return total;
}

Index checked_product(const char* operation, Index a, Index b) {
  Index product;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  fail(operation, fmt::format("{} x {} is too large a product", a, b));
}

ShapeCheck& ShapeCheck::operator()(const char* name, const Shape& shape, std::string_view letters) {
  const auto wrong = [&](const std::string& why) {
    std::string written;
    for (char c : letters) written += c == ' ' ? std::string(", ") : std::string(1, c);
    fail(operation_, fmt::format("{} ({}) is {}, but {}", name, written, to_string(shape), why));
  };
  const bool open = letters.starts_with('.');  // "... "
  int expected = letters.empty() || open ? 0 : 1;
  for (char c : letters) expected += c == ' ';
  int axis = open ? shape.rank() - expected : 0;
  if (open ? axis < 0 : shape.rank() != expected) [[unlikely]]
    wrong(fmt::format("{}{} axes were expected", open ? "at least " : "", expected));
  std::size_t at = open ? 4 : 0;
  for (const Index* extents = shape.begin(); at < letters.size(); ++axis, ++at) {
    const Index extent = extents[axis];
    const std::size_t begin = at;
    Index factor = 0;
    for (; at < letters.size() && letters[at] >= '0' && letters[at] <= '9'; ++at) {
      factor = 10 * factor + (letters[at] - '0');
    }
    if (at == letters.size() || letters[at] == ' ') {
      if (factor != extent) wrong(fmt::format("{} was expected", factor));
      continue;
    }
    if (at == begin) factor = 1;
    const char letter = letters[at++];
    if (const Binding* known = find(letter)) {
      if (extent != factor * known->extent) [[unlikely]]
        wrong(fmt::format("{} = {} in {}", letter, known->extent, known->found_in));
      continue;
    }
    if (factor != 1 && extent % factor != 0) [[unlikely]]
      wrong(fmt::format("a multiple of {} was expected", factor));
    if (bound_ < bindings_.size()) bindings_[bound_++] = {letter, extent / factor, name};
  }
  return *this;
}

Index ShapeCheck::operator[](char letter) const {
  const Binding* binding = find(letter);
  if (!binding) fail(operation_, fmt::format("no shape with the letter {} was checked", letter));
  return binding->extent;
}

}  // namespace attune
