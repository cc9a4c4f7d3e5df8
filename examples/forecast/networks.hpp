// Networks that forecast: a linear one, an encoder-decoder with attention, and one over segments.
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
  lstm,      // an encoder-decoder with attention, row by row: what published tables call LSTMa
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

class Network {
 public:
  virtual ~Network() = default;
  /// past (L, B, C) -> what comes, (H, B, C). What each step of the decoder attended to,
  /// (places, B · C) or (places, B), is added to `weights`, where they are asked for.
  virtual Var operator()(const Tensor& past, std::vector<Tensor>* weights = nullptr) const = 0;
};

/// Throws where segments are asked for that do not divide both the look-back and the horizon.
void check(const NetworkOptions& options);

/// Throws as check does.
std::unique_ptr<Network> make_network(const nn::Scope& scope, const NetworkOptions& options,
                                      Index columns);

}  // namespace attune::forecast
