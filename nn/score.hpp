// Score functions: how well a place in the memory fits what a decoder is about to write.
#pragma once

#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// What a score is asked about. Only `state` is always there.
struct Query {
  Var state;          // (B, Q)
  Index step = 0;     // target step
  Var coverage = {};  // (S, B), the attention each place has had so far
};

/// What a score keeps of a memory, computed once per sentence.
struct Keys {
  Var values;   // (S, B, A)
  Tensor mask;  // (S, B)
  Tensor positions =
      {};  // (S, B) source positions, where a window gathers some; undefined: 0 .. S-1
};

/// A score e = a(s, h) of every place. Derive from it to add one: what depends on the memory alone
/// goes into `keys`, what depends on the query into the call.
struct Score {
  virtual ~Score() = default;
  /// memory (S, B, D), mask (S, B)
  virtual Keys keys(const Var& memory, const Tensor& mask) const = 0;
  /// -> e (S, B)
  virtual Var operator()(const Query& query, const Keys& keys) const = 0;
};

/// e_ij = v_a · tanh(s_{i-1} W_a + h_j U_a)   (Bahdanau et al., 2014, appendix A.1.2)
class AdditiveScore : public Score {
 public:
  AdditiveScore(const Scope& scope, Index query, Index memory, Index attention);

  /// h U_a: (S, B, D) -> (S, B, A)
  Keys keys(const Var& memory, const Tensor& mask) const override;
  Var operator()(const Query& query, const Keys& keys) const override;

 private:
  Var W_a_;  // (Q, A)
  Var U_a_;  // (D, A)
  Var v_a_;  // (A)
};

}  // namespace attune::nn
