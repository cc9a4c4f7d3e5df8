// Checks of the shapes of an operation's inputs.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

/// Checks shapes against the letters of a signature. A letter has the same extent in all shapes.
///
///     ShapeCheck check("additive_scores");
///     check("q", q, "B A")("k", k, "S B A");
///
/// throws "additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q". `letters` has one entry
/// for each axis, separated by single spaces: a letter, a letter with a factor ("4H": a multiple of
/// 4), or a number. "..." as the first entry matches any number of leading axes.
class ShapeCheck {
 public:
  explicit ShapeCheck(const char* operation) : operation_(operation) {}

  ShapeCheck& operator()(const char* name, const Shape& shape, std::string_view letters);
  /// The same for a Tensor or Var. Throws if it is undefined.
  template <class X>
  requires requires(const X& x) { x.defined(); }
  ShapeCheck& operator()(const char* name, const X& x, std::string_view letters) {
    if (!x.defined()) [[unlikely]]
      fail_undefined(name);
    return (*this)(name, x.shape(), letters);
  }

  /// The extent of a letter in the shapes checked so far. Throws if the letter did not occur.
  Index operator[](char letter) const;

 private:
  struct Binding {
    char letter;
    Index extent;
    const char* found_in;
  };
  [[noreturn]] void fail_undefined(const char* name) const;
  const Binding* find(char letter) const;

  const char* operation_;
  std::array<Binding, 12> bindings_;
  std::size_t bound_ = 0;
};

}  // namespace attune
