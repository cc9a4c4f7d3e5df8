// Every differentiable operation with example inputs and a reference. The value tests, gradient
// tests, op benchmark, tests of failing allocations and the fuzz target of random graphs run this
// list, so an operation added here is covered by all of them.
#pragma once

#include <cctype>
#include <string>
#include <vector>

#include "support/same_function.hpp"

namespace attune {

/// One input of an operation: "KIND EXTENTS". An extent is a number, a letter or a multiple of a
/// letter, as in "T B 4H". The kind is one of
///     none         normal numbers
///     ~ or +       normal numbers away from 0, or positive
///     mask         ones and zeros, not differentiated
///     ids<V        i32 numbers below the extent V
/// or a fixed tensor.
struct OpInput {
  enum class Kind { normal, away_from_zero, positive, mask, ids, fixed };

  OpInput(const std::string& text);                          // NOLINT
  OpInput(const char* text) : OpInput(std::string(text)) {}  // NOLINT
  OpInput(const Tensor& x) : kind(Kind::fixed), value(x) {}  // NOLINT

  bool differentiable() const { return kind <= Kind::positive; }

  /// The value of an extent such as "4H", where letter('T') is the extent T.
  template <class Letter>
  static Index extent(const std::string& word, Letter letter) {
    if (!std::isalpha(word.back())) return std::stoll(word);
    return letter(word.back()) * (word.size() > 1 ? std::stoll(word) : 1);
  }
  template <class Letter>
  Shape shape(Letter letter) const {
    std::vector<Index> all;
    for (const std::string& word : extents) all.push_back(extent(word, letter));
    return Shape(all);
  }

  /// With the extents of the tests.
  Tensor draw(std::uint64_t seed) const;

  Kind kind = Kind::normal;
  std::vector<std::string> extents = {};
  std::string below = {};
  Tensor value = {};
};

struct OpCase {
  std::string group, name;
  std::vector<OpInput> all;  // inputs that are not differentiated come last
  Function f;                // of all inputs
  Function reference;        // loops over elements; or the definition of f, with the same gradients
  double largest = 10;       // factor of the larger inputs that f is also tested with
  std::vector<Tensor> inputs = {}, constants = {};

  /// f as a function of the differentiable inputs; masks get their dtype.
  Var operator()(const std::vector<Var>& x) const {
    return constants.empty() ? f(x) : with_constants(f, x);
  }
  Var with_constants(const Function& of, std::vector<Var> x) const {
    const DType dtype = x[0].dtype();
    for (const Tensor& c : constants) x.push_back(c.dtype() == DType::i32 ? c : c.to(dtype));
    return of(x);
  }
};

/// All operations of autograd.
std::vector<OpCase> op_cases();

/// Operations of more than one block or tile, too large for central differences.
std::vector<OpCase> large_op_cases();

}  // namespace attune
