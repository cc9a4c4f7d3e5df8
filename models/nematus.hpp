// The conditional GRU: "Nematus: a toolkit for neural machine translation" (Sennrich et al., 2017;
// arXiv 1703.04357), section 2.
#pragma once

#include <optional>

#include <attune/models/bahdanau.hpp>

namespace attune::models {

using NematusOptions = BahdanauOptions;

/// A decoder that attends between two cells, of annotations from any encoder.
///
/// | paper (section 2)                        | here             | parameter          | shape    |
/// |------------------------------------------|------------------|--------------------|----------|
/// | word vectors                             | encode(), read() | source.E, target.E | (V, E)   |
/// | s_0 = tanh(W_init Σ_i h_i / T_x)         | start()          | bridge.W, bridge.b | (2H, H)  |
/// | s'_j = GRU_1(y_{j-1}, s_{j-1})           | step()           | decoder.layer1.*   | (E, 3H)  |
/// | c_j = ATT(C, s'_j)                       | step()           | attention.*        |          |
/// | s_j = GRU_2(s'_j, c_j)                   | step()           | decoder.second.*   | (2H, 3H) |
/// | t_j = tanh(s_j W_t1 + y_{j-1} W_t2       | logits()         | readout.U_o, V_o,  | (., R)   |
/// |   + c_j W_t3)                            |                  | readout.C_o, b_o   |          |
/// | p(y_j) = softmax(t_j W_o)                | logits()         | output.W, output.b | (R, V)   |
class NematusDecoder {
 public:
  using State = AttendingState;
  using Words = BahdanauDecoder::Words;
  using Output = BahdanauDecoder::Output;
  using Step = DecoderStep<Output, State>;

  NematusDecoder(const nn::Scope& scope, const NematusOptions& options, EncodedSizes source,
                 nn::Attention attention);

  State start(const Encoded& source) const;
  Words read(const Tensor& previous) const;
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;
  State select(const State& state, const Tensor& rows) const { return models::select(state, rows); }

 private:
  WordVectors target_;
  nn::Linear bridge_;
  nn::Attention attention_;
  nn::Recurrent first_, second_;
  DeepOutput readout_;
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// With Bahdanau's encoder, and additive attention or one of your own.
class Nematus : public NematusDecoder {
 public:
  Nematus(const nn::Scope& scope, const NematusOptions& options,
          std::optional<nn::Attention> attention = {});

  Encoded encode(const Tensor& source, const Tensor& mask) const { return encoder_(source, mask); }

 private:
  BidirectionalWords encoder_;
};

}  // namespace attune::models
