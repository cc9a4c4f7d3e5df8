// Data-parallel training with several processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

namespace detail {
class Messages;
class ShardTree;
}  // namespace detail

/// The number of processes that a launcher of Open MPI, MPICH or Slurm started, or 1 if it is
/// unknown; 0 without a launcher.
int launched_processes();

struct WorkersOptions {
  double patience = 300;  // timeout in seconds for a worker that does not respond
};

/// The processes (workers) that train one model together, started by mpirun or Slurm. Without a
/// launcher, or if attune was built without MPI, there is one worker.
///
/// A batch is split into shards. Their number is a hyperparameter and does not depend on the
/// machine. Each worker computes some shards, and all workers get the same sum:
///
///     nn::Workers workers;
///     for (...) {
///       auto [loss, gradients] =
///           workers.backward(params, weights, [&](Index s) { return model.loss(shards[s]); });
///       adam.step(gradients);
///     }
///
/// Gradients are added in a fixed tree over the shard indices, ((0 + 1) + (2 + 3)) + ..., so
/// training is reproducible bit for bit with any number of workers and threads.
///
/// Every worker must call the same functions in the same order. If a worker does not respond for
/// `patience` seconds, the workers that wait for it throw an Error with its name. After such an
/// error, messages are pending and a worker can only call `abort`. If a worker is killed, mpirun
/// terminates all of them.
class Workers {
 public:
  /// Joins the group of workers. Workers on one machine divide its CPUs among themselves, so
  /// construct it before the first use of threads. Throws if MPI is not usable, or, if a
  /// launcher started the program, on a second Workers.
  explicit Workers(const WorkersOptions& options = {});
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Waits until all workers reach it. During stack unwinding it does not wait, as the other
  /// workers do not know of the exception.
  ~Workers();

  /// Index of this worker, from 0, and number of workers.
  int rank() const { return rank_; }
  int count() const { return count_; }
  /// For messages, such as "worker 2 of 4 on node7"; 2 is the rank.
  std::string name(Integer rank) const;
  std::string name() const { return name(rank_); }

  /// The shards [begin, end) that a worker computes.
  struct Range {
    Index begin, end;
  };
  Range shards_of(Integer rank, Integer shards) const {
    return {rank * shards / count_, (rank + 1) * shards / count_};
  }

  struct Sum {
    double loss;
    Gradients gradients;
  };

  /// Σ_s weights[s] · loss(s) and its gradients, for s = 0 .. weights.size() - 1. With several
  /// shards, skips those with weight 0, and every parameter has a gradient, which may be zero.
  /// Throws on fewer shards than workers; throws Cancelled in all workers if one is cancelled.
  Sum backward(const Parameters& parameters, std::span<const double> weights,
               const std::function<Var(Index shard)>& loss);

  /// Terminates all workers with exit status 1, after an error from which this one cannot recover.
  /// Does nothing if there is only one worker.
  void abort();

  /// All-gather of strings: returns to every worker the `text` of all workers, by rank. `patience`
  /// overrides that of the options, for example if a worker waits for input before the call.
  std::vector<std::string> gather(const std::string& text, std::optional<double> patience = {});

 private:
  /// Reduces the sums of all workers. Each worker receives the sums for its part of the elements,
  /// adds them in the order of the tree, and sends the totals to all workers.
  std::vector<Tensor> total(const detail::ShardTree& own, Index shards);

  WorkersOptions options_;
  std::unique_ptr<detail::Messages> messages_;
  int rank_ = 0, count_ = 1;
  std::vector<std::string> hosts_;
};

}  // namespace attune::nn
