#include <algorithm>
#include <cctype>

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

namespace {

std::string_view next_token(std::string_view& rest) {
  const auto begin = rest.find_first_not_of(' ');
  if (begin == rest.npos) return rest = {};
  const auto end = std::min(rest.find(' ', begin), rest.size());
  const std::string_view token = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return token;
}

int count_tokens(std::string_view letters) {
  int count = 0;
  while (!next_token(letters).empty()) ++count;
  return count;
}

/// "S B A" -> "(S, B, A)"
std::string written(std::string_view letters) {
  std::string result = "(";
  for (auto token = next_token(letters); !token.empty(); token = next_token(letters)) {
    if (result.size() > 1) result += ", ";
    result += token;
  }
  return result + ")";
}

}  // namespace

/// The common case, in one pass: whether every axis is a letter, perhaps with a factor, or a number,
/// and fits. Letters seen for the first time, without a factor, are bound.
bool ShapeCheck::fits(const char* name, const Shape& shape, std::string_view letters) {
  if (letters.starts_with("...")) return false;
  std::size_t at = 0;
  for (Index extent : shape) {
    while (at < letters.size() && letters[at] == ' ') ++at;
    Index factor = 0;
    const std::size_t begin = at;
    for (; at < letters.size() && letters[at] >= '0' && letters[at] <= '9'; ++at) {
      factor = 10 * factor + (letters[at] - '0');
    }
    const bool bare = at == begin;
    if (at == letters.size() || letters[at] == ' ') {
      if (bare || factor != extent) return false;
      continue;
    }
    const char letter = letters[at++];
    const Binding* binding = find(letter);
    if (binding ? extent != (bare ? 1 : factor) * binding->extent : !bare) return false;
    if (!binding && bound_ < static_cast<int>(bindings_.size())) {
      bindings_[static_cast<std::size_t>(bound_++)] = {letter, extent, name};
    }
  }
  return letters.find_first_not_of(' ', at) == letters.npos;
}

ShapeCheck& ShapeCheck::operator()(const char* name, const Shape& shape, std::string_view letters) {
  if (fits(name, shape, letters)) return *this;
  std::string_view rest = letters;
  int axis = 0;
  const int expected = count_tokens(letters);
  if (letters.starts_with("...")) {
    next_token(rest);
    axis = shape.rank() - (expected - 1);
    if (axis < 0)
      mismatch(name, shape, letters, fmt::format("at least {} axes were expected", expected - 1));
  } else if (shape.rank() != expected) {
    mismatch(name, shape, letters, fmt::format("{} axes were expected", expected));
  }
  for (; axis < shape.rank(); ++axis) {
    const std::string why = match(name, next_token(rest), shape[axis]);
    if (!why.empty()) mismatch(name, shape, letters, why);
  }
  return *this;
}

/// Empty when the extent fits the token; otherwise the reason that it does not.
std::string ShapeCheck::match(const char* name, std::string_view token, Index extent) {
  Index factor = 0;
  std::size_t digits = 0;
  while (digits < token.size() && std::isdigit(static_cast<unsigned char>(token[digits]))) {
    factor = 10 * factor + (token[digits++] - '0');
  }
  if (digits == token.size()) {
    return factor == extent ? std::string() : fmt::format("{} was expected", factor);
  }
  if (digits == 0) factor = 1;
  const char letter = token[digits];
  if (const Binding* binding = find(letter)) {
    if (extent == factor * binding->extent) return {};
    return fmt::format("{} = {} in {}", letter, binding->extent, binding->found_in);
  }
  if (extent % factor != 0) return fmt::format("a multiple of {} was expected", factor);
  if (bound_ < static_cast<int>(bindings_.size())) {
    bindings_[static_cast<std::size_t>(bound_++)] = {letter, extent / factor, name};
  }
  return {};
}

Index ShapeCheck::operator[](char letter) const {
  const Binding* binding = find(letter);
  if (!binding) fail(operation_, fmt::format("no shape with the letter {} was checked", letter));
  return binding->extent;
}

const ShapeCheck::Binding* ShapeCheck::find(char letter) const {
  for (int i = 0; i < bound_; ++i) {
    const Binding& binding = bindings_[static_cast<std::size_t>(i)];
    if (binding.letter == letter) return &binding;
  }
  return nullptr;
}

void ShapeCheck::mismatch(const char* name, const Shape& shape, std::string_view letters,
                          const std::string& why) const {
  fail(operation_,
       fmt::format("{} {} is {}, but {}", name, written(letters), to_string(shape), why));
}

}  // namespace attune
