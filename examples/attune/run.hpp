// Services for a training loop: directory, log, progress, signals, checkpoints, resuming.
#pragma once

#include <map>
#include <optional>
#include <span>

#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>

#include "options.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "run_directory.hpp"

namespace attune {

/// State that a checkpoint stores.
struct Saved {
  std::function<void(Safetensors&)> save;
  std::function<void(const Safetensors&)> load;  // throws for invalid entries
};
/// The state of an object, which must outlive the result.
template <class T>
Saved saved(T& object) {
  return {[&object](Safetensors& file) { object.save(file); },
          [&object](const Safetensors& file) { object.load(file); }};
}

/// Content hash: XXH3 of all bytes.
class Fingerprint {
 public:
  /// Adds the bytes of a contiguous range of numbers or characters.
  template <class Values>
  Fingerprint& add(const Values& values) {
    add_bytes(std::as_bytes(std::span(values)));
    return *this;
  }
  /// In hexadecimal.
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void add_bytes(std::span<const std::byte> bytes);

  std::uint64_t value_ = 0;
};

/// Data that a run reads: the file's name, and a content hash of the data used.
struct Input {
  std::string from;
  Fingerprint fingerprint;
};

/// Description of the data of a run.
struct RunData {
  std::string text = {};                     // printed at the start
  std::map<std::string, Input> inputs = {};  // by the key of their metadata in checkpoints
  std::function<Index()> epoch = {};         // current epoch, for the log
};

/// What last.safetensors contains beyond Run::checkpoint() and the state of other objects.
struct RunState {
  bool validated = false;  // at this step
  double loss_sum = 0, loss_weights = 0, shown_loss = 0;
  double rate = 0;   // of the last update
  std::string line;  // of the log, for this step
  std::string best, status;
  Index best_step = 0;  // of best.safetensors
};
models::OptionList fields_of(RunState& state);

/// The state of a training loop. Each iteration calls goes_on; if trains(), backward and update;
/// then validate and, if it returns a result, save_best and save. finish follows the loop. Create
/// the RunDirectory first, which locks the files, then data and model, then the Run, whose
/// destructor saves them if an exception leaves the loop.
///
/// A run that is killed at any time and resumed computes the same weights, checkpoints and log, bit
/// for bit, as an uninterrupted run. So does any number of workers.
class Run {
 public:
  /// Creates the directory. Resumes from last.safetensors if options.resumes(), otherwise renames the
  /// files of an earlier run. Prints data.text. `model` stores what best.safetensors contains: the
  /// parameters and the metadata that loading needs. last.safetensors also contains `progress`.
  /// Throws if workers differ in options, data or version, if the checkpoint to resume was trained
  /// on other data, or if the other files in the directory belong to another training.
  Run(const pairs::TrainOptions& options, RunData data, RunDirectory& files,
      nn::Parameters& parameters, std::function<void(Safetensors&)> model,
      std::vector<Saved> progress);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  /// Saves last.safetensors if an exception leaves the loop, except when saving itself failed: the
  /// resumed run repeats those updates.
  ~Run();

  /// False after `total` steps or --minutes (both after a final validation), and after a signal,
  /// once last.safetensors is saved.
  bool goes_on(Index total);
  /// False if a validation is pending, because the run was stopped before it.
  bool trains() const { return !pending_; }

  /// Σ_s share_s · loss_s over the shards s of `examples` examples, and its gradients, computed by
  /// all workers. `loss(begin, end)` is the mean over these examples, weighted by `weight(i)` (1 if
  /// empty); share_s is the shard's part of the total weight. Matrix products use --precision;
  /// dropout draws from a random stream of (seed, step, shard). Returns no gradients if the
  /// computation takes longer than a second after a signal: all workers abandon the update.
  nn::Workers::Sum backward(Index examples, const std::function<Var(Index, Index)>& loss,
                            const std::function<double(Index)>& weight = {});
  /// Clips the gradients to norm 1, updates weights and moving average, and counts the step and its
  /// target tokens. Skips the update with a warning if loss or gradients are not finite. Returns
  /// false if the update was abandoned. After ten consecutive skipped updates, saves and throws.
  bool update(nn::Adam& adam, nn::Workers::Sum sum, double rate, double tokens);

  /// `measure()` with the averaged weights (--average). Empty if no validation is due, or after a
  /// signal.
  template <class F>
  std::optional<std::invoke_result_t<F>> validate(F measure) {
    std::optional<std::invoke_result_t<F>> result;
    if (is_due()) with_average([&] { result.emplace(measure()); });
    return result;
  }
  /// Writes the validated weights to best.safetensors. finish() prints `result`.
  void save_best(std::string result);
  /// Ends a validation: writes last.safetensors, then a line of the log, then a line of progress,
  /// which shows `status` from then on.
  void save(const report::Json& measures, std::string status);

  /// Prints how the run ended. Returns the exit status: 0, or 128 + the signal's number.
  int finish();

  Index step() const { return step_; }
  double seconds() const;
  bool diverges() const { return divergence_.diverges(); }

 private:
  bool is_due() const;
  void with_average(const std::function<void()>& validation);
  void synchronize();
  void check_equal_workers() const;
  void write_log(const report::Json& measures, bool saves);
  void show(bool line);
  std::string products_of_run() const;
  Safetensors checkpoint() const;
  void save_last();
  bool has_best(const Metadata& last) const;
  void resume();
  double mean_loss() const;

  const pairs::TrainOptions& options_;
  const RunData data_;
  RunDirectory& files_;
  nn::Parameters& parameters_;
  const std::function<void(Safetensors&)> model_;
  const std::vector<Saved> progress_;
  const Precision precision_;
  const int exceptions_;  // std::uncaught_exceptions() at construction
  std::optional<nn::MovingAverage> average_;
  nn::DivergenceMonitor divergence_;
  std::optional<report::LogWriter> log_;
  std::optional<Progress> shown_;
  Index step_ = 0, total_ = 0;
  bool pending_ = false;  // a validation of this step
  bool unsaved_ = false;  // last.safetensors is older than this step
  bool saving_ = false;   // a save is in progress, or has failed
  RunState state_;
  std::string end_, training_;  // training_: identity, the same in all files of the run
  double seconds_before_ = 0, tokens_ = 0, per_second_ = 0;
  std::chrono::steady_clock::time_point started_, logged_;
  double agreed_seconds_ = 0;    // the first worker's time
  bool stop_ = false;            // a worker got a signal
  std::string products_before_;  // matrix-product backends of the run before it was resumed
};

/// The best validation so far, and the number of validations since then.
class Best {
 public:
  /// True if the weights of this validation should be saved. Compares `values` lexicographically;
  /// higher is better. Equal values also return true (later weights are more confident), unless the
  /// first value is 0. After the first validation, false while the run diverges.
  bool improves(const Run& run, std::vector<double> values);
  /// Number of validations since the last improvement.
  Index waited() const { return waited_; }

  void save(Safetensors& file) const;
  void load(const Safetensors& file);

 private:
  std::vector<double> values_;
  Index waited_ = 0;
};

/// Iterates over the batches of successive epochs. A batch is a list of example indices.
class Epochs {
 public:
  using Batches = std::vector<std::vector<std::uint32_t>>;
  /// `batches` must depend on the epoch only, so that a resumed run gets the same ones.
  explicit Epochs(std::function<Batches(Index epoch)> batches);

  const std::vector<std::uint32_t>& next();
  /// Makes next() return the last batch again, after an abandoned update.
  void take_back();
  /// Epoch of the next batch, from 0.
  Index epoch() const { return epoch_; }
  /// Number of batches in this epoch.
  Index size() const { return std::ssize(batches_); }

  void save(Safetensors& file) const;
  void load(const Safetensors& file);

 private:
  std::function<Batches(Index)> make_;
  Batches batches_;
  Index epoch_ = 0, made_ = 0, position_ = 0;
};

}  // namespace attune
