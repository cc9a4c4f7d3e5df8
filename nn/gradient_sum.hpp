// The sum of the gradients of all shards, over all workers. Not installed.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/nn/messages.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/shard_tree.hpp>
#include <attune/tensor/precision.hpp>

namespace attune::nn::detail {

/// Each worker adds the gradients of its own shards. The resulting sums are exchanged in buckets,
/// while the last shard is still computed: each worker receives the other workers' sums of its own
/// range of a bucket, adds them in the order of the tree, and sends the total to all.
class GradientSum {
 public:
  /// `subtrees` are, for each worker, those of which it has sums when all of its shards are added.
  /// Without messages there is one worker. In bf16 every sum of the tree is rounded, sent or not,
  /// so that the total does not depend on which worker added what; f64 is never rounded.
  GradientSum(const Parameters& parameters, std::vector<std::vector<Subtree>> subtrees,
              Messages* messages, std::span<const std::string> hosts, double patience,
              Index bucket_bytes, Precision precision);

  /// The gradients of share · loss, and zeros for parameters on which it does not depend, or for
  /// all without a loss. The last one of this worker is sent.
  void add(Index shard, const Var& loss, double share, bool is_last);

  Gradients finish();

 private:
  /// Elements [begin, end) of a parameter.
  struct Piece {
    std::size_t parameter;
    Index begin, end;
  };
  struct Bucket {
    std::vector<Piece> pieces;
    Index elements = 0;
    std::size_t missing = 0;             // pieces that are not final
    std::vector<Tensor> sent, received;  // to and from each worker, in bf16 packed
    std::optional<Exchange> exchange;
    bool summed = false;
  };
  /// Elements of a bucket.
  struct Range {
    Index begin, end;
    Index size() const { return end - begin; }
  };

  void make_buckets(Index bucket_bytes);
  void push(std::size_t parameter, Index shard, Tensor gradient, bool is_last);
  void advance(bool wait);
  void start(std::size_t number);
  void send_sum(std::size_t number);
  void take(Bucket& bucket);
  void exchange(Bucket& bucket, int worker, int tag, const Tensor& packed, Index elements);
  Tensor received(const Bucket& bucket, int worker, const Shape& shape) const;
  template <class F>
  void each_part(const Bucket& bucket, const Range& range, F f) const;

  int workers() const { return static_cast<int>(subtrees_.size()); }
  Range range_of(const Bucket& bucket, int worker) const {
    return {worker * bucket.elements / workers(), (worker + 1) * bucket.elements / workers()};
  }

  std::vector<Var> variables_;
  DType dtype_;
  bool bf16_;
  std::function<void(Tensor& left, const Tensor& right)> add_;
  std::unordered_map<const attune::detail::Node*, std::size_t> numbers_;
  std::vector<ShardTree<Tensor>> trees_;  // of each parameter: this worker's shards
  std::vector<std::vector<Subtree>> subtrees_;
  Messages* messages_;
  std::span<const std::string> hosts_;
  double patience_;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // each parameter
  std::size_t first_open_ = 0, first_waiting_ = 0;    // buckets are started in their order
  std::vector<Tensor> sums_;
};

}  // namespace attune::nn::detail
