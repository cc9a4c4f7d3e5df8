// What makes annotations of a source.
#pragma once

#include <optional>
#include <variant>

#include <attune/models/encoded.hpp>
#include <attune/models/seq2seq_options.hpp>
#include <attune/nn/self_attention.hpp>
#include <attune/nn/stacked.hpp>

namespace attune::models {

/// Recurrent layers in one or both directions: "layer1", or "layer1.forward" and "layer1.backward".
/// In both directions every layer reads both of the one below. Above them, if asked for, y +
/// selfattention(y) (Vaswani et al., 2017, without their normalisation).
class Encoder {
 public:
  Encoder(const nn::Scope& scope, const Seq2SeqOptions& options);

  /// x (S, B, E), mask (S, B)
  Encoded operator()(const Var& x, const Tensor& mask) const;

  EncodedSizes sizes() const { return {size_, hidden_}; }

 private:
  using OneWay = nn::Stacked<nn::Recurrent>;
  using BothWays = nn::Stacked<nn::Bidirectional<nn::Recurrent>>;

  std::variant<OneWay, BothWays> layers_;
  Index size_, hidden_;
  Direction direction_;
  std::optional<nn::SelfAttention> self_attention_;
};

}  // namespace attune::models
