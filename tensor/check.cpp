#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

namespace attune {

Error::Error(std::string_view message) : std::runtime_error(printable(message)) {}

void fail(std::string_view operation, std::string_view message) {
  throw Error(fmt::format("{}: {}", operation, message));
}

namespace {

/// 40000000000 -> "40 GB"
std::string in_words(std::size_t bytes) {
  constexpr const char* units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 999.5; ++unit) number /= 1000;
  return fmt::format("{:.3g} {}", number, units[unit]);
}

std::string no_memory(std::string_view operation, std::string_view what, std::size_t bytes) {
  return fmt::format("{}: there is no memory for {}{}{}", operation.empty() ? "tensor" : operation,
                     what, what.empty() ? "" : ", ", in_words(bytes));
}

}  // namespace

OutOfMemory::OutOfMemory(std::string_view operation, std::string what, std::size_t bytes)
    : Error(no_memory(operation, what, bytes)),
      what_(std::move(what)),
      bytes_(bytes),
      named_(!operation.empty()) {}

void OutOfMemory::throw_as(std::string_view operation) const {
  if (named_) throw;
  throw OutOfMemory(operation, what_, bytes_);
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
    if (bound_ < std::ssize(bindings_)) bindings_[bound_++] = {letter, extent / factor, name};
  }
  return *this;
}

Index ShapeCheck::operator[](char letter) const {
  const Binding* binding = find(letter);
  if (!binding) fail(operation_, fmt::format("no shape with the letter {} was checked", letter));
  return binding->extent;
}

const ShapeCheck::Binding* ShapeCheck::find(char letter) const {
  for (int i = 0; i < bound_; ++i) {
    const Binding& binding = bindings_[i];
    if (binding.letter == letter) return &binding;
  }
  return nullptr;
}

}  // namespace attune
