// Dropout, and the guard that says that a model is being trained.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {

/// While one lives, layers of this thread behave as in training: dropout is active and draws from
/// `random`, which must outlive the guard.
class Training {
 public:
  explicit Training(Random& random);
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  ~Training();

  /// The generator of the innermost guard, or null outside of training.
  static Random* random();

 private:
  Random* before_;
};

/// In training, y = x ⊙ m / (1 - rate), where each element of m is 0 with probability `rate` and 1
/// otherwise (Srivastava et al., 2014); elsewhere y = x.
class Dropout {
 public:
  /// Throws unless 0 <= rate < 1.
  explicit Dropout(double rate);

  /// (...) -> (...)
  Var operator()(const Var& x) const;

 private:
  double rate_;
};

}  // namespace attune::nn
