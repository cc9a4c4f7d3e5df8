// Networks that forecast: a linear one, the encoder-decoder with attention as it was published, and
// one over segments.
#pragma once

#include <memory>
#include <span>

#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/gru.hpp>
#include <attune/nn/linear.hpp>
#include <attune/nn/lstm.hpp>
#include <attune/nn/score_kind.hpp>

namespace attune::forecast {

enum class Kind {
  linear,    // NLinear (Zeng et al., 2023): one matrix, from the past to the future
  lstm,      // the LSTMa of published tables: Bahdanau et al. (2014) hour by hour
  segments,  // a GRU over segments of each column, after SegRNN (Lin et al., 2023), with attention
};

/// Whether the decoder over segments attends.
enum class Attends { no, yes };

struct NetworkOptions {
  Kind kind = Kind::segments;
  Index look_back = 720;  // L
  Index horizon = 96;     // H
  Index segment = 24;     // w
  Index hidden = 128;     // N
  double dropout = 0.3;
  Attends attends = Attends::yes;
  nn::ScoreOptions score = {.attention = 64};
  nn::AttentionOptions attention = {};
};

/// All of it as text.
std::span<const models::OptionField<NetworkOptions>> network_fields();

/// What comes, and what was attended to in each step of the decoder.
struct Forecast {
  Var y;                     // (H, B, C)
  std::vector<Var> weights;  // (places, B · C), or (places, B); none without attention
};

class Network {
 public:
  virtual ~Network() = default;
  /// past (L, B, C)
  virtual Forecast operator()(const Tensor& past) const = 0;
};

/// Throws when the segment divides not both the look-back and the horizon.
std::unique_ptr<Network> make_network(const nn::Scope& scope, const NetworkOptions& options,
                                      Index columns);

}  // namespace attune::forecast
