// Data-parallel training by several processes.
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

struct WorkersOptions {
  double patience = 300;  // seconds to wait for a worker that does not respond
};

/// The processes that train one model together, as mpirun or Slurm started them; a single one
/// without a launcher, or where attune was built without MPI.
///
/// A batch is split into shards, whose number is a hyperparameter and does not depend on the
/// machine. Each worker computes some of them, and all get the same sum:
///
///     nn::Workers workers;
///     for (...) {
///       auto [loss, gradients] =
///           workers.backward(params, shares, [&](Index s) { return model.loss(shards[s]); });
///       adam.step(gradients);
///     }
///
/// Gradients are added in one tree of shard numbers, ((0 + 1) + (2 + 3)) + ..., wherever the shards
/// were computed: the weights have the same bits with any number of workers, each with any number
/// of threads. With one worker this is gradient accumulation.
///
/// Every worker must call the same functions in the same order. If a worker hangs or the network is
/// broken, a worker that waits for it longer than `patience` throws an Error that names it. When
/// one worker is killed, mpirun ends all of them; a worker that cannot continue calls `abort`, the
/// only option after an error that leaves messages pending.
class Workers {
 public:
  /// Joins the others. Those of one machine share out its CPUs, so this comes before threads are
  /// used. Throws where MPI cannot be used, or in a second Workers.
  explicit Workers(const WorkersOptions& options = {});
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Waits until all workers end, but not after an exception, of which the others do not know.
  ~Workers();

  int rank() const { return rank_; }
  int count() const { return count_; }
  /// "worker 2 of 4 on node7": the first is 0.
  std::string name(int rank) const;
  std::string name() const { return name(rank_); }

  /// The shards [begin, end) that a worker computes.
  struct Range {
    Index begin, end;
  };
  Range shards_of(int rank, Index shards) const {
    return {rank * shards / count_, (rank + 1) * shards / count_};
  }

  struct Sum {
    double loss;
    Gradients gradients;
  };

  /// Σ_s shares[s] · loss(s) and its gradients; with several shards those of all parameters, zeros
  /// where no loss depends on one. A shard whose share is 0 is not computed. Throws
  /// where there are fewer shards than workers, and Cancelled in all workers where one is cancelled.
  Sum backward(const Parameters& parameters, std::span<const double> shares,
               const std::function<Var(Index shard)>& loss);

  /// Ends all workers with status 1, after an error from which this one cannot recover. Does
  /// nothing if there are no others.
  void abort();

  /// Returns to every worker the texts of all, by rank. Give a longer `patience` than that of the
  /// options where a worker first waits for input.
  std::vector<std::string> gather(const std::string& said, std::optional<double> patience = {});

 private:
  /// The sums of all workers. Each receives the others' sums of its own part of all elements, adds
  /// them in the order of the tree, and sends the totals to all.
  std::vector<Tensor> total(const detail::ShardTree& own, Index shards);

  WorkersOptions options_;
  std::unique_ptr<detail::Messages> messages_;
  int rank_ = 0, count_ = 1;
  std::vector<std::string> hosts_;
};

}  // namespace attune::nn
