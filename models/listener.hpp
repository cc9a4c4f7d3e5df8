// An encoder of long sequences of real numbers: the listener of "Listen, attend and spell" (Chan,
// Jaitly, Le and Vinyals, 2016; arXiv 1508.01211).
#pragma once

#include <attune/models/decoder.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

struct ListenerOptions {
  Index features = 40;  // D of each frame
  Index hidden = 128;   // H of each direction
  /// How many steps of the layer below each layer joins into one, the lowest first. {1, 2, 2, 2} is
  /// the paper's.
  std::vector<Index> join = {2, 2, 2};
  nn::Cell cell = nn::Cell::lstm;
  double dropout = 0;  // of what goes from one layer into the next, in training
};

/// A pyramid of recurrent layers in both directions, "layer1" (the lowest) and so on. With the
/// join n of layer j (equation 5, there with n = 2):
///     h_i^j = BLSTM(h_{i-1}^j, [h_{ni}^{j-1}; ...; h_{ni+n-1}^{j-1}])
/// A source of S frames comes out as S / 8 annotations with three layers that join two: attention
/// has less to look through, and the layers less to remember.
class Listener {
 public:
  /// Throws when there is no layer, or one that joins less than one step.
  Listener(const nn::Scope& scope, const ListenerOptions& options);

  /// frames (S, B, D), mask (S, B) -> h (S / Π join, B, 2H), rounded up at each layer
  Encoded operator()(const Var& frames, const Tensor& mask) const;

  EncodedSizes sizes() const { return {layers_.back().size(), layers_.back().size() / 2}; }

 private:
  std::vector<nn::Bidirectional<nn::Recurrent>> layers_;
  std::vector<Index> join_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
