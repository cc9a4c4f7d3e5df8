// What makes annotations of a source.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include <attune/models/seq2seq_options.hpp>
#include <attune/nn/bidirectional.hpp>
#include <attune/nn/self_attention.hpp>
#include <attune/nn/stacked.hpp>

namespace attune::models {

/// A source that was read.
struct Encoded {
  Var h;  // (S, B, D): annotations
  /// Of each layer, the lowest first, after all words were read: that of the backward direction,
  /// which ends on the first word, where there is one.
  std::vector<nn::RecurrentState> last;  // (B, hidden)
};

/// Recurrent layers in one or both directions: "layer1", or "layer1.forward" and "layer1.backward".
/// In both directions every layer reads both of the one below. Above them, if asked for, y +
/// selfattention(y) (Vaswani et al., 2017, without their normalisation).
class Encoder {
 public:
  Encoder(const nn::Scope& scope, const Seq2SeqOptions& options);

  /// x (S, B, E), mask (S, B)
  Encoded operator()(const Var& x, const Tensor& mask) const;

  /// D: the size of an annotation.
  Index size() const { return size_; }

 private:
  using Bidirectional = nn::Bidirectional<nn::Recurrent>;
  Encoded read_both_ways(const Var& x, const Tensor& mask) const;

  Index size_;
  Direction direction_;
  Residual residual_;
  std::optional<nn::Stacked<nn::Recurrent>> stacked_;
  std::vector<Bidirectional> bidirectional_;
  std::optional<nn::SelfAttention> self_attention_;
  nn::Dropout dropout_;  // between layers
};

}  // namespace attune::models
