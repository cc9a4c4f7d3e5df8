// Dropout, and the scope guard under which a model is trained.
#pragma once

#include <cstddef>

#include <attune/autograd/var.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {

/// While one lives, layers in this thread are in training mode: dropout is active and draws from
/// `random`, which must outlive the guard.
class Training {
 public:
  [[nodiscard]] explicit Training(Random& random);
  /// The opposite: layers are in evaluation mode, whatever the enclosing guards.
  [[nodiscard]] explicit Training(std::nullptr_t);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  ~Training();

  /// The generator of the innermost guard, or null outside of training.
  static Random* random();

 private:
  Random* before_;
};

/// Returns x, for a layer that acts in training only. If a gradient flows through it, a warning on
/// standard error says, once in a process, that the loss was computed outside of training and that
/// `what` had no effect.
Var outside_of_training(const Var& x, const char* what);

/// Whether every step of a sequence has a mask of its own, or all share one (variational dropout:
/// Gal and Ghahramani, 2016).
enum class DropoutKind { elementwise, per_sequence };

/// In training, y = x ⊙ m / (1 - rate), where each element of m is 0 with probability `rate` and 1
/// otherwise (Srivastava et al., 2014). m has the shape of x, or with per_sequence that of one
/// step: (B, D) for x (T, B, D). Tensors of other ranks are no sequences.
/// Outside of training y = x; backward of such a loss prints a warning, once in a process.
class Dropout {
 public:
  /// Throws unless 0 <= rate < 1.
  explicit Dropout(double rate, DropoutKind kind = DropoutKind::elementwise);

  /// (...) -> (...)
  Var operator()(const Var& x) const;

  /// m / (1 - rate), for use at several steps; undefined outside of training and at rate 0.
  Tensor draw(const Shape& shape, DType dtype) const;

 private:
  double rate_;
  DropoutKind kind_;
};

}  // namespace attune::nn
