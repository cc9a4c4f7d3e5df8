#include <algorithm>

#include <attune/nn/bf16.hpp>
#include <attune/nn/gradient_sum.hpp>
#include <attune/tensor/elementwise.hpp>

namespace attune::nn::detail {
namespace {

/// Buckets that are sent at a time: what they hold is bounded, whatever the size of the model.
constexpr std::size_t most_open = 8;

constexpr int first_tag = 2;  // those below are of Workers::gather

Tensor flat(const Tensor& x, Index begin, Index end) { return x.reshape({-1}).slice(begin, end); }

void copy_into(Tensor to, const Tensor& from) { copy(from, to); }

}  // namespace

GradientSum::GradientSum(const Parameters& parameters, std::vector<std::vector<Subtree>> subtrees,
                         Messages* messages, std::span<const std::string> hosts, double patience,
                         Index bucket_bytes, Precision precision)
    : dtype_(parameters.all().empty() ? DType::f32 : parameters.all().front().variable.dtype()),
      bf16_(precision == Precision::bf16 && dtype_ == DType::f32),
      add_([rounds = bf16_](Tensor& left, const Tensor& right) {
        add_in_place(left, right);
        if (rounds) round_to_bf16(left);
      }),
      trees_(parameters.all().size()),
      subtrees_(std::move(subtrees)),
      messages_(messages),
      hosts_(hosts),
      patience_(patience),
      sums_(trees_.size()) {
  for (const NamedVariable& parameter : parameters) {
    numbers_[parameter.variable.node().get()] = variables_.size();
    variables_.push_back(parameter.variable);
  }
  if (messages_) make_buckets(bucket_bytes);
}

/// The last parameters come first, as their gradients do.
void GradientSum::make_buckets(Index bucket_bytes) {
  buckets_of_.resize(variables_.size());
  const Index most = std::max<Index>(1, bucket_bytes / static_cast<Index>(size_of(dtype_)));
  for (std::size_t i = variables_.size(); i-- > 0;) {
    for (Index begin = 0; begin < variables_[i].size();) {
      if (buckets_.empty() || buckets_.back().elements == most) buckets_.emplace_back();
      Bucket& bucket = buckets_.back();
      const Index end = std::min(variables_[i].size(), begin + most - bucket.elements);
      bucket.pieces.push_back({i, begin, end});
      bucket.elements += end - begin;
      ++bucket.missing;
      buckets_of_[i].push_back(buckets_.size() - 1);
      begin = end;
    }
  }
}

void GradientSum::add(Index shard, const Var& loss, double share, bool is_last) {
  std::vector<bool> given(variables_.size());
  if (loss.defined()) {
    backward(loss, full(loss.shape(), share, loss.dtype()), variables_,
             [&](const Var& variable, Tensor gradient) {
               const std::size_t i = numbers_.at(variable.node().get());
               given[i] = true;
               push(i, shard, std::move(gradient), is_last);
             });
  }
  for (std::size_t i = variables_.size(); i-- > 0;) {
    if (!given[i]) push(i, shard, zeros(variables_[i].shape(), variables_[i].dtype()), is_last);
  }
}

void GradientSum::push(std::size_t parameter, Index shard, Tensor gradient, bool is_last) {
  if (bf16_) round_to_bf16(gradient);
  trees_[parameter].push({0, shard}, std::move(gradient), add_);
  if (!messages_ || !is_last) return;
  for (const std::size_t bucket : buckets_of_[parameter]) --buckets_[bucket].missing;
  advance(/*wait=*/false);
}

/// Begins to send what is final, and goes on with what was sent.
void GradientSum::advance(bool wait) {
  while (first_waiting_ < buckets_.size() && buckets_[first_waiting_].missing == 0 &&
         first_waiting_ < first_open_ + most_open) {
    start(first_waiting_++);
  }
  for (std::size_t i = first_open_; i < first_waiting_; ++i) {
    Bucket& bucket = buckets_[i];
    const bool first = wait && i == first_open_;
    if (first) bucket.exchange->wait();
    if (bucket.exchange->done() && !bucket.summed) send_sum(i);
    if (first) bucket.exchange->wait();
  }
  while (first_open_ < first_waiting_ && buckets_[first_open_].summed &&
         buckets_[first_open_].exchange->done()) {
    take(buckets_[first_open_++]);
  }
}

/// f(parameter, begin, end, offset): elements [begin, end) of the parameter are those of the range
/// from `offset` on.
template <class F>
void GradientSum::each_part(const Bucket& bucket, const Range& range, F f) const {
  Index at = 0;  // where a piece begins in the bucket
  for (const Piece& piece : bucket.pieces) {
    const Index begin = std::max(range.begin, at),
                end = std::min(range.end, at + piece.end - piece.begin);
    if (begin < end) {
      const Index shift = piece.begin - at;
      f(piece.parameter, begin + shift, end + shift, begin - range.begin);
    }
    at += piece.end - piece.begin;
  }
}

/// Sends to each worker this worker's sums of that worker's range of the bucket, and receives the
/// other workers' sums of this worker's range.
void GradientSum::start(std::size_t number) {
  Bucket& bucket = buckets_[number];
  const int own = messages_->rank(), tag = first_tag + 2 * static_cast<int>(number);
  const Index mine = range_of(bucket, own).size();
  bucket.exchange.emplace(*messages_, hosts_, patience_);
  for (int r = 0; r < workers(); ++r) {
    const auto subtrees = [&](int of) {
      return std::ssize(subtrees_[static_cast<std::size_t>(of)]);
    };
    const Range range = range_of(bucket, r);
    Tensor sums = Tensor::uninitialized({subtrees(own), range.size()}, dtype_);
    each_part(bucket, range, [&](std::size_t parameter, Index begin, Index end, Index offset) {
      const auto& nodes = trees_[parameter].nodes();
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        copy_into(flat(sums[static_cast<Index>(k)], offset, offset + end - begin),
                  flat(nodes[k].sum, begin, end));
      }
    });
    exchange(bucket, r, tag, bf16_ ? pack_bf16(sums) : sums, subtrees(r) * mine);
  }
}

/// Sends `packed` to a worker and receives `elements` elements from it. For this worker itself,
/// `packed` counts as received.
void GradientSum::exchange(Bucket& bucket, int worker, int tag, const Tensor& packed,
                           Index elements) {
  if (worker == messages_->rank()) return bucket.received.push_back(packed);
  bucket.received.push_back(bf16_ ? Tensor::uninitialized({packed_size(elements)}, DType::i32)
                                  : Tensor::uninitialized({elements}, dtype_));
  bucket.exchange->receive(worker, tag, mutable_bytes_of(bucket.received.back()));
  bucket.exchange->send(worker, tag, bytes_of(packed));
  bucket.sent.push_back(packed);
}

Tensor GradientSum::received(const Bucket& bucket, int worker, const Shape& shape) const {
  const Tensor& x = bucket.received[static_cast<std::size_t>(worker)];
  return bf16_ ? unpack_bf16(x, shape) : x.reshape(shape);
}

/// Adds all workers' sums of this worker's range, sends the total to all workers, and receives the
/// totals of their ranges.
void GradientSum::send_sum(std::size_t number) {
  Bucket& bucket = buckets_[number];
  const int own = messages_->rank(), tag = first_tag + 2 * static_cast<int>(number) + 1;
  const Index mine = range_of(bucket, own).size();
  ShardTree<Tensor> tree;
  for (int r = 0; r < workers(); ++r) {
    const auto& subtrees = subtrees_[static_cast<std::size_t>(r)];
    const Tensor sums = received(bucket, r, {std::ssize(subtrees), mine});
    for (std::size_t k = 0; k < subtrees.size(); ++k)
      tree.push(subtrees[k], sums[static_cast<Index>(k)], add_);
  }
  const Tensor sum = tree.finish(add_), packed = bf16_ ? pack_bf16(sum) : sum;
  bucket.sent.clear(), bucket.received.clear();
  for (int r = 0; r < workers(); ++r) exchange(bucket, r, tag, packed, range_of(bucket, r).size());
  bucket.summed = true;
}

/// The sums of all ranges.
void GradientSum::take(Bucket& bucket) {
  for (int r = 0; r < workers(); ++r) {
    const Range range = range_of(bucket, r);
    const Tensor theirs = received(bucket, r, {range.size()});
    each_part(bucket, range, [&](std::size_t parameter, Index begin, Index end, Index offset) {
      Tensor& sum = sums_[parameter];
      const Var& variable = variables_[parameter];
      if (!sum.defined()) sum = Tensor::uninitialized(variable.shape(), variable.dtype());
      copy_into(flat(sum, begin, end), flat(theirs, offset, offset + end - begin));
    });
  }
  bucket.sent.clear(), bucket.received.clear();
}

Gradients GradientSum::finish() {
  // A worker without shards has nothing to add.
  for (Bucket& bucket : buckets_) bucket.missing = 0;
  while (first_open_ < buckets_.size()) advance(/*wait=*/true);
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    // Without messages, or where there is no element to send.
    if (!sums_[i].defined()) sums_[i] = trees_[i].finish(add_);
  }
  return Gradients(variables_, std::move(sums_));
}

}  // namespace attune::nn::detail
