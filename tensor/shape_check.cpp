#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {

ShapeCheck& ShapeCheck::operator()(const char* name, const Shape& shape, std::string_view letters) {
  const auto wrong = [&](const std::string& why) {
    std::string written;
    for (char c : letters) written += c == ' ' ? std::string(", ") : std::string(1, c);
    fail(operation_, "{} ({}) is {}, but {}", name, written, to_string(shape), why);
  };
  const bool open = letters.starts_with('.');  // "... "
  int expected = letters.empty() || open ? 0 : 1;
  for (char c : letters) expected += c == ' ';
  const int axis = open ? shape.rank() - expected : 0;
  if (open ? axis < 0 : shape.rank() != expected) [[unlikely]]
    wrong(fmt::format("{}{} axes were expected", open ? "at least " : "", expected));
  std::size_t at = open ? 4 : 0;
  for (const Index* next = shape.begin() + axis; at < letters.size(); ++at) {
    const Index extent = *next++;
    Index factor = 1;
    if (letters[at] <= '9') {
      for (factor = 0; at < letters.size() && letters[at] >= '0' && letters[at] <= '9'; ++at)
        factor = 10 * factor + (letters[at] - '0');
      if (at == letters.size() || letters[at] == ' ') {
        if (factor != extent) wrong(fmt::format("{} was expected", factor));
        continue;
      }
    }
    const char letter = letters[at++];
    if (const Binding* known = find(letter)) {
      if (extent != factor * known->extent) [[unlikely]]
        wrong(fmt::format("{} = {} in {}", letter, known->extent, known->found_in));
      continue;
    }
    if (factor != 1 && extent % factor != 0) [[unlikely]]
      wrong(fmt::format("a multiple of {} was expected", factor));
    if (bound_ == bindings_.size()) wrong(fmt::format("more than {} letters were checked", bound_));
    bindings_[bound_++] = {letter, extent / factor, name};
  }
  return *this;
}

void ShapeCheck::fail_undefined(const char* name) const {
  fail(operation_, "{} is undefined", name);
}

const ShapeCheck::Binding* ShapeCheck::find(char letter) const {
  for (const Binding& binding : std::span(bindings_).first(bound_))
    if (binding.letter == letter) return &binding;
  return nullptr;
}

Index ShapeCheck::operator[](char letter) const {
  const Binding* binding = find(letter);
  if (!binding) fail(operation_, "no shape with the letter {} was checked", letter);
  return binding->extent;
}

}  // namespace attune
