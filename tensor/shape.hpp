// The extents of a tensor, stored inline.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include <attune/tensor/dtype.hpp>

namespace attune {

/// The extents of a tensor, outermost first. At most `max_rank` of them, none negative.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<Index> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const Index> extents);

  int rank() const { return rank_; }
  Index size() const { return product(0, rank_); }

  /// Extent of an axis; a negative axis counts from the end. Throws when there is no such axis.
  Index operator[](int axis) const { return extents_[this->axis(axis)]; }

  /// The axis as a number from 0: -1 is the last one. Throws when there is no such axis.
  int axis(int axis) const {
    const int from_start = axis < 0 ? axis + rank_ : axis;
    if (from_start < 0 || from_start >= rank_) [[unlikely]]
      fail_axis(axis);
    return from_start;
  }

  const Index* begin() const { return extents_.data(); }
  const Index* end() const { return extents_.data() + rank_; }

  /// The same shape with one extent exchanged, an axis removed, or an axis inserted before `axis`.
  Shape with(int axis, Index extent) const;
  Shape without(int axis) const;
  Shape inserted(int axis, Index extent) const;

  /// Product of the extents from axis `begin` up to, not including, axis `end`.
  Index product(int begin, int end) const {
    Index n = 1;
    for (int i = begin; i < end; ++i) n *= extents_[i];
    return n;
  }

  /// Extents beyond the rank are 0.
  friend bool operator==(const Shape& a, const Shape& b) = default;

 private:
  [[noreturn]] void fail_axis(int axis) const;

  std::array<Index, max_rank> extents_{};
  int rank_ = 0;
};

/// "(3, 4)"; "()" for a scalar.
std::string to_string(const Shape& shape);
std::string to_string(std::span<const Index> extents);

/// The shape of `a op b` under NumPy's broadcasting rule: axes are aligned at the end, and extents
/// must agree or be 1. Throws an Error that names `operation`.
Shape broadcast(const char* operation, const Shape& a, const Shape& b);

}  // namespace attune
