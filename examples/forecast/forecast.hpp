// The parts of `forecast`: options, data, model.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <attune/nn/attention.hpp>
#include <attune/nn/parameters.hpp>

#include "support/frames.hpp"
#include "support/run.hpp"

namespace attune::forecast {

enum class Kind {
  linear,    // NLinear (Zeng et al., 2023): one matrix, from the past to the future
  lstm,      // an encoder-decoder with attention, row by row: what published tables call LSTMa
  segments,  // a GRU over segments of each column, after SegRNN (Lin et al., 2023), with attention
};

struct NetworkOptions {
  Kind kind = Kind::segments;
  Index look_back = 720;  // L
  Index horizon = 96;     // H
  Index segment = 24;     // w
  Index hidden = 128;     // N
  double dropout = 0.3;
  bool attends = true;  // the decoder over segments
  nn::ScoreOptions score = {.attention = 64};
  nn::AttentionOptions attention = {};
};

enum class Loss { squared, absolute };

enum class Protocol {
  shares,  // 70, 10 and 20 % of all rows
  ett,     // that of the published tables: 12, 4 and 4 months of 30 days of hours
};

struct TrainOptions : TrainingOptions, NetworkOptions {
  TrainOptions() : TrainingOptions{.out = "forecast-model", .rate = 1e-3, .validate_every = 100} {}
  std::filesystem::path csv;
  Protocol protocol = Protocol::shares;
  Index steps = 300;
  std::uint64_t seed = 1;
  Loss loss = Loss::absolute;
};

Fields<TrainOptions> training_fields();
Fields<TrainOptions> network_fields();
const Fields<TrainOptions>& all_fields();

// Data

using Time = std::chrono::sys_seconds;
std::string to_string(Time time);  // 2016-07-01 05:00:00

/// Rows at equal distances in time.
struct Table {
  std::vector<std::string> columns;  // without that of the dates
  Time first;
  std::chrono::seconds interval{1};
  Tensor values;  // (rows, columns) f64

  Index rows() const { return values.dim(0); }
  Time time(Index row) const { return first + row * interval; }
};

/// Reads a header and at least two rows: a date (2016-07-01, 2016-07-01 05:00 or 2016-07-01
/// 05:00:00) in the interval of the first two, and a finite number in every other column. Throws an
/// Error "FILE:LINE: what is wrong" for anything else.
Table read_table(const std::filesystem::path& path);

/// Throws where the columns of a file are not those of a model, in their order.
void check_columns(const std::filesystem::path& path, const Table& table,
                   const std::vector<std::string>& columns);

/// Of each column, over the rows of training. Throws for a column that never changes.
frames::Scaling scaling_of(const Tensor& values, const std::vector<std::string>& columns);

/// Rows begin to end (exclusive).
struct Part {
  Index begin = 0, end = 0;
};
struct Parts {
  Part train, validation, test;
};

/// A table's rows, one part after the other. Throws where `ett` is given too few rows, or rows that
/// are not an hour apart.
Parts parts_of(const Table& table, Protocol protocol);

/// The first target rows of all windows whose targets lie within the part, and whose past lies within
/// the table. Throws when there is none; `what` names the part.
std::vector<Index> windows_of(const Part& part, const NetworkOptions& options, const char* what);

/// Windows side by side.
struct Windows {
  Tensor past;    // (look_back, B, C)
  Tensor future;  // (horizon, B, C)
};

/// The windows whose targets begin at these rows of values (rows, C).
Windows windows_at(const Tensor& values, const NetworkOptions& options,
                   std::span<const Index> rows);

// Model

/// past (L, B, C) -> future (H, B, C). Where `weights` is given, each step of the decoder appends its
/// attention weights: (places, B · C) or (places, B).
using Network = std::function<Var(const Tensor& past, std::vector<Tensor>* weights)>;

/// Throws where the network has segments that do not divide both the look-back and the horizon; so
/// does make_network.
void check(const NetworkOptions& options);

Network make_network(const nn::Scope& scope, const NetworkOptions& options, Index columns);

/// The network, and what its use needs: options, columns, scaling.
struct Model {
  Model(const TrainOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::unique_ptr<nn::Parameters> parameters);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  TrainOptions options;
  std::vector<std::string> columns;
  frames::Scaling scaling;
  std::unique_ptr<nn::Parameters> parameters;
  Network network;         // of scaled values
  Metadata metadata = {};  // of the checkpoint
};

}  // namespace attune::forecast
