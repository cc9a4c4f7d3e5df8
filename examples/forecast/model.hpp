// Networks that forecast: a linear one, an encoder-decoder with attention, and one over segments;
// and what their numbers mean.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/score.hpp>
#include <attune/tensor/safetensors.hpp>

#include "data.hpp"

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

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune forecast 2";

class Model {
 public:
  Model(const NetworkOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  /// See Network; of scaled values.
  Var operator()(const Tensor& past, std::vector<Tensor>* weights = nullptr) const {
    return (*network_)(past, weights);
  }

  const NetworkOptions& options() const { return options_; }
  WindowSizes sizes() const { return {options_.look_back, options_.horizon}; }
  std::span<const std::string> columns() const { return columns_; }
  const frames::Scaling& scaling() const { return scaling_; }
  nn::Parameters& parameters() { return *parameters_; }
  const nn::Parameters& parameters() const { return *parameters_; }
  /// All metadata of the checkpoint it was loaded from.
  const Metadata& metadata() const { return metadata_; }

 private:
  Model(const NetworkOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::unique_ptr<nn::Parameters> parameters);

  NetworkOptions options_;
  std::vector<std::string> columns_;
  frames::Scaling scaling_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<Network> network_;
  Metadata metadata_;
};

/// Mean squared and mean absolute error of scaled values, over all windows.
struct Errors {
  double mse = 0, mae = 0;
  Index windows = 0;
  std::vector<double> mse_by_step;  // of each row ahead (H)
};

/// Of the windows whose targets begin at these rows of scaled values (rows, C).
Errors measure(const Model& model, const Tensor& values, std::span<const Index> rows);

}  // namespace attune::forecast
