// The layers between a decoder and its softmax.
#pragma once

#include <optional>
#include <vector>

#include <attune/models/deep_output.hpp>
#include <attune/models/seq2seq_options.hpp>
#include <attune/nn/linear.hpp>

namespace attune::models {

/// The first layer, of state s (..., H), previous word y (..., E) and context c (..., C), which may
/// be undefined:
///     tanh:         t = tanh(s U_o + y V_o + c C_o + b_o)
///     maxout:       t = max over pairs of the same, 2R wide  (Bahdanau et al., 2014, A.2.2)
///     attentional:  t = tanh([c; s] W_c)                     (Luong et al., 2015, equation 5)
/// and above it t = tanh(t W + b) as often as asked for ("layer2" and so on). Dropout follows each.
class Readout {
 public:
  /// `context` is C, 0 where there is none.
  Readout(const nn::Scope& scope, const Seq2SeqOptions& options, Index context);

  /// -> (..., R), before dropout. Input feeding gives it to the next step, after dropout.
  Var first(const Var& y, const Var& s, const Var& c) const;

  /// The first layer's dropout.
  Var dropped(const Var& t) const { return dropout_(t); }

  /// The layers above: (..., R) -> (..., R)
  Var rest(Var t) const;

  /// For input feeding: a mask (B, R) that holds for a whole sentence, or an undefined one.
  Tensor draw_mask(Index batch, DType dtype) const;

 private:
  Index size_;
  ReadoutKind kind_;
  nn::DropoutKind dropout_kind_;
  std::optional<DeepOutput> sum_;  // to R, 2R with maxout
  Var W_c_;                        // (C + H, R), attentional only
  std::vector<nn::Linear> above_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
