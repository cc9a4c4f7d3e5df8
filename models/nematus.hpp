// The conditional GRU: "Nematus: a toolkit for neural machine translation" (Sennrich et al., 2017;
// arXiv 1703.04357), section 2.
#pragma once

#include <optional>

#include <attune/models/decoder.hpp>
#include <attune/models/word_vectors.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/bidirectional.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

struct NematusOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;          // E
  Index hidden = 256;             // H, of each encoder direction and of the decoder
  Index attention = 256;          // A
  Index readout = 256;            // R
  nn::Cell cell = nn::Cell::gru;  // of encoder and decoder
  double dropout = 0;             // on embeddings, annotations and readout
};

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
  struct State {
    nn::Memory memory;
    nn::Past past;
    nn::RecurrentState s;
  };
  struct Words {
    Var y, share;  // E y (T, B, E), and what it adds to the gates of GRU_1
    Var operator[](Index j) const { return share[j]; }
  };
  struct Output {
    Var s, c;
  };
  using Step = DecoderStep<Output, State>;

  NematusDecoder(const nn::Scope& scope, const NematusOptions& options, EncodedSizes source,
                 nn::Attention attention);

  State start(const Encoded& source) const;
  Words read(const Tensor& previous) const;
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;
  State select(const State& state, const Tensor& rows) const;

 private:
  WordVectors target_;
  nn::Linear bridge_;
  nn::Attention attention_;
  nn::Recurrent first_, second_;
  Var U_o_, V_o_, C_o_, b_o_;  // (H, R), (E, R), (D, R), (R)
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// With its bidirectional encoder of words, and additive attention or one of your own.
class Nematus : public NematusDecoder {
 public:
  Nematus(const nn::Scope& scope, const NematusOptions& options,
          std::optional<nn::Attention> attention = {});

  Encoded encode(const Tensor& source, const Tensor& mask) const;  // (S, B) i32, (S, B)

 private:
  WordVectors source_;
  nn::Bidirectional<nn::Recurrent> encoder_;
};

}  // namespace attune::models
