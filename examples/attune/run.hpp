// What the loop of a training calls: directory, log, progress, signals, checkpoints, resuming.
#pragma once

#include <map>
#include <optional>
#include <span>

#include <attune/nn/optimisers.hpp>

#include "log.hpp"
#include "options.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "run_directory.hpp"

namespace attune {

/// Something that survives a restart. Objects with `save(Safetensors&)` and
/// `load(const Safetensors&)` convert to it; they must outlive it.
struct Saved {
  std::function<void(Safetensors&)> save;
  std::function<void(const Safetensors&)> load;  // throws where the entries are not possible

  Saved(std::function<void(Safetensors&)> save, std::function<void(const Safetensors&)> load)
      : save(std::move(save)), load(std::move(load)) {}
  template <class T>
  requires(!std::is_same_v<std::remove_const_t<T>, Saved>) &&
      requires(T& object, Safetensors& file) {
    object.save(file), object.load(file);
  }
  Saved(T& object)
      : save([&object](Safetensors& file) { object.save(file); }),
        load([&object](const Safetensors& file) { object.load(file); }) {}
};

/// Another text, almost surely, when any of the values is another: XXH3 of all bytes.
class Fingerprint {
 public:
  /// Of numbers or characters that lie side by side.
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

/// Data that a run reads: the file, and a fingerprint of what is used of it.
struct Input {
  std::string from;
  Fingerprint fingerprint;
};

/// What a run is told of its data.
struct RunData {
  std::string text = {};                     // printed at the start
  std::map<std::string, Input> inputs = {};  // by the name of their entry in checkpoints
  std::function<Index()> epoch = {};         // of a line of the log
};

/// The state around a training loop, which calls goes_on, then, where it trains, backward and
/// update; validate and, where there is a result, save_best and save; finish. Data and model are made after the RunDirectory, which locks the files, and before the
/// Run, which saves them when an exception leaves the loop.
///
/// A run that is killed at any moment and resumed makes the same weights, checkpoints and log, bit
/// for bit, as one that is left alone; so does any number of workers.
class Run {
 public:
  /// Makes the directory, resumes from last.safetensors where `files` says so, otherwise keeps the
  /// files of an earlier run under other names; then prints what is trained on what. `model` saves
  /// what best.safetensors has: the parameters, and the metadata that loading needs;
  /// last.safetensors has `progress`, too. Throws where several workers differ in any of it, or
  /// have read other data, and where the checkpoint to resume was trained on other data.
  Run(const pairs::TrainOptions& options, RunData data, RunDirectory& files,
      nn::Parameters& parameters, std::function<void(Safetensors&)> model,
      std::vector<Saved> progress);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  /// When an exception leaves the loop, saves what was learnt. An update whose best weights could
  /// not be written is not saved: the resumed run makes it once more.
  ~Run();

  /// False when `total` steps are made, when --minutes have passed (both after a last validation),
  /// or, once all is saved, after a signal.
  bool goes_on(Index total);
  /// False where a validation is pending: a run was stopped before it.
  bool trains() const { return !pending_; }

  /// Σ shares[s] · loss(s) over the shards of `examples` examples, and its gradients, by all
  /// workers. `loss(begin, end)` is the mean over these examples, in which example i has the weight
  /// `weight(i)`: 1 where it is empty. Products are in the precision of --precision; dropout draws
  /// from a stream of (seed, step, shard). No gradients where a worker got a signal and takes longer
  /// than a second from then: all abandon the update.
  nn::Workers::Sum backward(Index examples, const std::function<Var(Index, Index)>& loss,
                            const std::function<double(Index)>& weight = {});
  /// Clips the gradients, updates weights and moving average, counts: an update at this rate, from
  /// so many target tokens. Skips the update where loss or gradients are NaN or infinite, which a
  /// line says; false where it was abandoned. Throws, once all is saved, when ten updates in a row were skipped.
  bool update(nn::Adam& adam, nn::Workers::Sum sum, double rate, double tokens);

  /// `measure()` with the averaged weights, where there is an average; nothing where no validation
  /// is due, or a signal interrupts it.
  template <class F>
  std::optional<std::invoke_result_t<F>> validate(F measure) {
    std::optional<std::invoke_result_t<F>> result;
    if (is_due()) with_average([&] { result.emplace(measure()); });
    return result;
  }
  /// The weights that were validated, in best.safetensors. `result` is printed in the end.
  void save_best(std::string result);
  /// Ends a validation: last.safetensors, then a line of the log, then one of progress, which shows
  /// `status` from then on.
  void save(const report::Json& measures, std::string status);

  /// Prints how the run ended. The exit status: 0, or 128 + the number of the signal.
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
  void resume();
  double mean_loss() const;

  const pairs::TrainOptions& options_;
  const RunData data_;
  RunDirectory& files_;
  nn::Parameters& parameters_;
  const std::function<void(Safetensors&)> model_;
  const std::vector<Saved> progress_;
  const Precision precision_;
  const int exceptions_;  // in flight when it began
  std::optional<nn::MovingAverage> average_;
  nn::DivergenceMonitor divergence_;
  std::optional<report::LogWriter> log_;
  std::optional<Progress> shown_;
  Index step_ = 0, total_ = 0;
  bool pending_ = false;    // a validation of this step
  bool validated_ = false;  // at this step
  bool unsaved_ = false;    // the step
  bool saving_ = false;     // or failed to
  std::string line_;        // of the log, for this step
  std::string best_, status_, end_;
  double rate_ = 0;  // of the last update
  double loss_sum_ = 0, loss_weights_ = 0, shown_loss_ = 0;
  double seconds_before_ = 0, tokens_ = 0, per_second_ = 0;
  std::chrono::steady_clock::time_point started_, logged_;
  double agreed_seconds_ = 0;    // of several workers
  bool stop_ = false;            // one of them was interrupted
  std::string products_before_;  // who made them until it was resumed
};

/// The best validation so far, and how many were not better since.
class Best {
 public:
  /// Whether the weights of this validation are to be kept; `values` are compared one after the
  /// other, higher ones are better. Of equally good weights the later ones, which are more
  /// confident, unless the first value is 0: nothing is right. None of step 0, nor, after the
  /// first, of a run that diverges.
  bool improves(const Run& run, std::vector<double> values);
  /// Validations since the last that was better.
  Index waited() const { return waited_; }

  void save(Safetensors& file) const;
  void load(const Safetensors& file);

 private:
  std::vector<double> values_;
  Index waited_ = 0;
};

/// The batches of one epoch after the other, as numbers of examples.
class Epochs {
 public:
  using Batches = std::vector<std::vector<std::uint32_t>>;
  /// `batches` depends on the epoch alone.
  explicit Epochs(std::function<Batches(Index epoch)> batches);

  const std::vector<std::uint32_t>& next();
  /// Next is the batch that came last once more, as its update was abandoned.
  void take_back();
  /// Of the next batch, from 0 on.
  Index epoch() const { return epoch_; }
  /// Batches of this epoch.
  Index size() const { return std::ssize(batches_); }

  void save(Safetensors& file) const;
  void load(const Safetensors& file);

 private:
  std::function<Batches(Index)> make_;
  Batches batches_;
  Index epoch_ = 0, made_ = 0, position_ = 0;
};

}  // namespace attune
