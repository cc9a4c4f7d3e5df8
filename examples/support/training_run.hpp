// A training run: its steps, its log and its checkpoints, whatever is trained.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <attune/autograd/var.hpp>
#include <attune/models/report/log.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/average.hpp>
#include <attune/nn/divergence.hpp>

#include "support/progress.hpp"
#include "support/run_directory.hpp"
#include "support/training_options.hpp"
#include "support/workers.hpp"

namespace attune {

/// What a step learns from, in shards.
struct StepBatch {
  std::vector<double> shares;            // of each shard in the loss; their sum is 1
  std::function<Var(Index shard)> loss;  // of this worker's shards only
  double weight = 1;                     // of this loss in the mean that is logged
  double size = 0;                       // words, examples, ...: what the log's speed counts
};

/// Cuts `examples` examples into `shards` parts of about equal numbers. The loss is a mean, in
/// which example i has the weight `count(i)`; `loss(begin, end)` is the mean over these examples.
StepBatch in_shards(Index shards, Index examples, const std::function<double(Index)>& count,
                    std::function<Var(Index begin, Index end)> loss);

struct RunKind {
  const char* speed;    // its name in the log
  const char* weights;  // in checkpoints: the name of the sum of the losses' weights
  bool starts_with_validation;
};

/// The loop of a training: updates, each followed by validation, checkpoint and log where these are
/// due. A program derives a class from it that says what is trained.
class TrainingRun {
 public:
  virtual ~TrainingRun() = default;

  /// Trains to the end, or until interrupted. Returns the exit status: 0, or 128 + the number of a
  /// signal.
  int go();

 protected:
  /// Options, files and parameters must outlive the run.
  TrainingRun(const TrainingOptions& options, const RunKind& kind, std::uint64_t seed,
              RunDirectory& files, nn::Parameters& parameters, const nn::AdamOptions& adam);

  bool resumes() const { return files_.resumes(); }
  Index step() const { return step_; }
  double seconds() const;
  bool diverges() const { return watch_.diverges(); }
  /// Speed and loss since the last line of the log; right after a line, those of that line.
  double per_second() const { return per_second_; }
  double mean_loss() const;
  /// "129391 parameters, 2 threads, products: ..."
  std::string machinery() const;
  void save_best();

 private:
  /// Prints what is trained on what, and from where on.
  virtual void describe() const = 0;
  /// Why the run is at its end; empty when it is not.
  virtual std::string end() const = 0;
  virtual Index total_steps() const = 0;
  /// Minutes after which the run ends at the latest; 0: any.
  virtual double most_minutes() const { return 0; }
  /// The learning rate of the step that comes.
  virtual double rate() const = 0;
  virtual StepBatch next_batch() = 0;
  virtual void after_step() {}
  /// Measures, and saves the weights when they are the best so far; the weights are their moving
  /// average, where there is one. Where it throws Interrupted, nothing has changed.
  virtual void validate() = 0;
  /// What to say of the best weights in the end; empty when there are none.
  virtual std::string best_result() const = 0;
  virtual std::string status() const = 0;
  /// Lines that are printed after a validation.
  virtual std::string samples() const { return {}; }
  /// What the log has after the step, and of a validation.
  virtual report::LogFields place() const { return {}; }
  virtual report::LogFields measures() const = 0;
  /// What every checkpoint has: the model, its options and measures.
  virtual void save_model(Safetensors& file) const = 0;
  /// What resuming needs beyond that. `check` throws where something else was trained; `load` reads
  /// the measures, too.
  virtual void save_progress(Safetensors& file) const = 0;
  virtual void check(const Safetensors& /*file*/) const {}
  virtual void load_progress(const Safetensors& file) = 0;

  TimeLimit time_limit() const;
  std::string loop();
  bool settle(bool last, Progress& progress);
  nn::Workers::Sum gradients_or_save();
  void train_step();
  void synchronize();
  void check_equal_workers() const;
  [[noreturn]] void give_up() const;
  void write_log();
  Safetensors checkpoint() const;
  void save() const;
  /// What was learnt is not lost.
  void save_after_error() const;
  void resume();

  const TrainingOptions& options_;
  const RunKind kind_;
  const std::uint64_t seed_;
  RunDirectory& files_;
  nn::Parameters& parameters_;
  nn::Adam adam_;
  std::optional<nn::MovingAverage> average_;
  nn::DivergenceWatch watch_;
  const Precision precision_;
  std::optional<report::LogWriter> log_;
  Index step_ = 0;
  bool validated_ = false;   // at this step
  bool saves_best_ = false;  // or failed to
  bool owed_;                // the step is not settled
  double loss_sum_ = 0, loss_weights_ = 0, shown_loss_ = 0;
  double seconds_before_ = 0, size_ = 0, per_second_ = 0;
  std::chrono::steady_clock::time_point started_, logged_;
  double agreed_seconds_ = 0;  // of several workers
  bool stop_ = false;          // one of them was interrupted
  StepBatch batch_;            // of this step
};

}  // namespace attune
