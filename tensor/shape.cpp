#include <ostream>

#include <fmt/format.h>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

void detail::flags_like_D_GLIBCXX_DEBUG_must_match_the_library(std::vector<int>, std::string) {}

Shape::Shape(std::span<const Index> extents, Index open) {
  if (extents.size() > max_rank)
    fail("shape", fmt::format("{} has more than {} axes", to_string(extents), max_rank));
  rank_ = static_cast<std::int8_t>(extents.size());
  std::ranges::replace_copy(extents, extents_.begin(), -1, open);
  check_extents();
}

void Shape::check_size() const {
  Index n = 1;
  for (const Index extent : *this) {
    if (extent < 0) fail("shape", to_string(*this) + " has a negative extent");
    if (__builtin_mul_overflow(n, std::max<Index>(extent, 1), &n) || n > Index{1} << 59)
      fail("shape", "the size of " + to_string(*this) + " overflows");
  }
}

void Shape::fail_axis(Index axis, const char* operation) const {
  fail(operation, fmt::format("there is no axis {} in {}", axis, to_string(*this)));
}

Shape Shape::without(Integer axis) const {
  Shape result = *this;
  auto at = result.extents_.begin() + this->axis(axis);
  std::copy(at + 1, result.extents_.begin() + rank_, at);
  result.extents_[--result.rank_] = 1;
  return result;
}

Shape Shape::inserted(Integer axis, Integer extent) const {
  const Index from_start = axis + (axis < 0 ? rank_ + 1 : 0);
  if (from_start < 0 || from_start > rank_ || rank_ == max_rank)
    fail("shape",
         fmt::format("cannot insert an axis at {} into {}", Index{axis}, to_string(*this)));
  Shape result = *this;
  auto at = result.extents_.begin() + from_start;
  std::copy_backward(at, result.extents_.begin() + rank_, result.extents_.begin() + rank_ + 1);
  *at = extent;
  ++result.rank_;
  result.check_extents();
  return result;
}

std::string to_string(std::span<const Index> extents) {
  return fmt::format("({})", fmt::join(extents, ", "));
}

std::string to_string(const Shape& shape) {
  return to_string(std::span(shape.begin(), shape.end()));
}

std::array<Index, Shape::max_rank> element_index(const Shape& shape, Integer number) {
  std::array<Index, Shape::max_rank> at{};
  for (int axis = shape.rank(); axis-- > 0; number = number / shape[axis])
    at[axis] = number % shape[axis];
  return at;
}

std::string element_name(const Shape& shape, Integer number) {
  const auto at = element_index(shape, number);
  return to_string(std::span(at).first(shape.rank()));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Shape broadcast(const char* operation, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int i = 1; i <= shorter.rank(); ++i) {
    const Index x = longer[-i], y = shorter[-i];
    if (x != y && x != 1 && y != 1)
      fail(operation, fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
    if (x == 1 && y != 1) result = result.with(-i, y);
  }
  return result;
}

}  // namespace attune
