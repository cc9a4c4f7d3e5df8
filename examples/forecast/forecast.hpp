// The parts of `forecast`, from the table to the commands.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <attune/nn/attention.hpp>
#include <attune/nn/parameters.hpp>

#include "support/comparing.hpp"
#include "support/measurements.hpp"

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

class Network {
 public:
  virtual ~Network() = default;
  /// past (L, B, C) -> what comes, (H, B, C). Where `weights` are asked for, each step of the
  /// decoder adds what it attended to: (places, B · C) or (places, B).
  virtual Var operator()(const Tensor& past, std::vector<Tensor>* weights = nullptr) const = 0;
};

/// Throws where the network has segments that do not divide both the look-back and the horizon; so
/// does make_network.
void check(const NetworkOptions& options);

std::unique_ptr<Network> make_network(const nn::Scope& scope, const NetworkOptions& options,
                                      Index columns);

/// A network and all that it takes to use it.
struct Model {
  Model(const TrainOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::unique_ptr<nn::Parameters> parameters);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  /// See Network; of scaled values.
  Var operator()(const Tensor& past, std::vector<Tensor>* weights = nullptr) const {
    return (*network)(past, weights);
  }

  TrainOptions options;
  std::vector<std::string> columns;
  frames::Scaling scaling;
  std::unique_ptr<nn::Parameters> parameters;
  std::unique_ptr<Network> network;
  Metadata metadata = {};  // of the checkpoint
};

/// Mean squared and mean absolute error of scaled values, over all windows.
struct Errors {
  double mse = 0, mae = 0;
  Index windows = 0;
  std::vector<double> mse_by_step;  // of each row ahead (H)
};

/// Of the windows whose targets begin at these rows of scaled values (rows, C).
Errors measure(const Model& model, const Tensor& values, std::span<const Index> rows);

/// The rows that a model is tested on.
struct TestData {
  Table table;
  Tensor values;            // (rows, C) f32, scaled
  std::vector<Index> rows;  // where the targets of each window begin
};

/// From that file, or from that of the model's training where it is empty. Throws where it has
/// other columns.
TestData test_data(const Model& model, const std::filesystem::path& csv = {});

// The commands. Each prints to standard output and returns the exit status.

/// Trains until `steps`, or until interrupted: 128 + the number of the signal.
int train(const TrainOptions& options);
/// The options of a run that is to be resumed from this checkpoint.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

struct Arguments {
  std::filesystem::path model = "forecast-model/best.safetensors";
  std::filesystem::path csv = {};  // empty: that of the training
  bool json = false;
  std::filesystem::path out = {};  // of a report; empty: report.html beside the model
  Index examples = 4;
};

int predict(const Arguments& options);   // the rows after the last of a file, as CSV
int evaluate(const Arguments& options);  // errors over all windows of the test part
int report(const Arguments& options);    // an HTML page: forecasts, attention, errors

struct CompareArguments : Comparison {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
  std::vector<Index> horizons = {24, 48, 96, 168, 192, 336, 720};
};

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

/// Trains every variant for every horizon with every seed, where that is not done yet, and prints a
/// table of their errors on the test part.
int compare(CompareArguments options);

}  // namespace attune::forecast
