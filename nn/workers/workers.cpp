#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/nn/workers/messages.hpp>
#include <attune/nn/workers/workers.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/platform.hpp>

namespace attune::nn {

/// The summands of one shard: the gradients of all parameters, then the loss (f64).
using Terms = std::vector<Tensor>;

namespace detail {

/// Adds the terms of shards 0, 1, 2, ... in a fixed tree: merges two adjacent subtrees with the
/// same number of shards if the index of the left one is even. `finish` adds the remaining subtrees
/// from right to left. So the sum does not depend on which worker added which subtrees.
class ShardTree {
 public:
  /// The subtree of the shards [index · 2^level, (index + 1) · 2^level).
  struct Node {
    int level;
    Index index;
    Terms sum;
  };

  /// Adds a subtree; call it in ascending order of shards.
  void push(Node node) {
    while (!nodes_.empty() && nodes_.back().level == node.level && node.index % 2 == 1 &&
           nodes_.back().index == node.index - 1) {
      node = {node.level + 1, node.index / 2, add_to_last(node.sum)};
    }
    nodes_.push_back(std::move(node));
  }

  /// The sum of all nodes, of which there must be at least one.
  Terms finish() {
    Terms sum = std::move(nodes_.back().sum);
    for (nodes_.pop_back(); !nodes_.empty();) sum = add_to_last(sum);
    return sum;
  }

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  /// Removes the last node, and returns its sum plus `right`.
  Terms add_to_last(const Terms& right) {
    Terms left = std::move(nodes_.back().sum);
    nodes_.pop_back();
    for (std::size_t i = 0; i < left.size(); ++i) add_in_place(left[i], right[i]);
    return left;
  }

  std::vector<Node> nodes_;
};

}  // namespace detail

namespace {

/// weight · loss and its gradients; zeros for parameters on which it does not depend, or if it is
/// undefined.
Terms terms(const Parameters& parameters, const Var& loss, double weight) {
  Gradients gradients;
  double weighted = 0;
  if (loss.defined()) {
    weighted = weight * loss.item();
    gradients = backward(loss, full(loss.shape(), weight, loss.dtype()));
  }
  Terms all;
  for (const auto& [name, w] : parameters) {
    const Tensor* gradient = gradients.find(w);
    all.push_back(gradient ? *gradient : zeros(w.shape(), w.dtype()));
  }
  all.push_back(scalar(weighted, DType::f64));
  return all;
}

/// Elements [begin, end) of the tensor terms[term].
struct Piece {
  std::size_t term;
  Index begin, end;
};

/// The part of all elements that worker `rank` reduces.
std::vector<Piece> part_of(const Terms& terms, int rank, int count) {
  constexpr Index most = Index{1} << 27;  // elements per message, as MPI counts bytes in an int
  Index size = 0, at = 0;
  for (const Tensor& x : terms) size += x.size();
  const Index first = rank * size / count, last = (rank + 1) * size / count;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < terms.size(); at += terms[i++].size()) {
    const Index end = std::min(last - at, terms[i].size());
    for (Index begin = std::max<Index>(first - at, 0); begin < end; begin += most)
      pieces.push_back({i, begin, std::min(begin + most, end)});
  }
  return pieces;
}

/// Views of the pieces.
Terms pieces_of(const Terms& terms, const std::vector<Piece>& pieces) {
  Terms all;
  for (const auto& [term, begin, end] : pieces)
    all.push_back(terms[term].reshape({-1}).slice(begin, end));
  return all;
}

Terms uninitialized_like(const Terms& terms) {
  Terms all;
  for (const Tensor& x : terms) all.push_back(Tensor::uninitialized(x.shape(), x.dtype()));
  return all;
}

/// Restricts this process to part `index` of `count` of these CPUs. Otherwise several processes
/// would bind their threads to the same CPUs.
void take_cpus(const std::vector<int>& cpus, Index index, Index count) {
  const Index n = std::ssize(cpus);
  if (count < 2 || n == 0) return;
  const Index begin = count > n ? index % n : index * n / count,
              end = count > n ? begin + 1 : (index + 1) * n / count;
  attune::platform::allow_cpus(std::span(cpus).subspan(static_cast<std::size_t>(begin),
                                                       static_cast<std::size_t>(end - begin)));
}

}  // namespace

int launched_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name)) return std::atoi(size);
  if (!std::getenv("PMIX_RANK")) return 0;
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks ? std::atoi(tasks) : 1;
}

Workers::Workers(const WorkersOptions& options)
    : options_(options), messages_(detail::Messages::join()) {
  if (messages_) rank_ = messages_->rank(), count_ = messages_->count();
  hosts_.assign(static_cast<std::size_t>(count_), "a host");
  if (!messages_) return;
  hosts_ = gather(messages_->host());
  const std::vector<int> cpus = attune::platform::allowed_cpus();
  const std::string allowed = fmt::format("{}", fmt::join(cpus, " "));
  const std::vector<std::string> others = gather(allowed);
  Index index = 0, count = 0;
  for (std::size_t r = 0; r < others.size(); ++r) {
    if (hosts_[r] != hosts_[static_cast<std::size_t>(rank_)] || others[r] != allowed) continue;
    index += static_cast<int>(r) < rank_;
    ++count;
  }
  take_cpus(cpus, index, count);
}

Workers::~Workers() {
  if (!messages_ || messages_->broken || std::uncaught_exceptions() > 0) return;
  try {
    messages_->leave();
  } catch (const std::exception&) {  // no worker is left to report to
  }
}

void Workers::abort() {
  if (messages_) messages_->abort();
}

std::string Workers::name(Integer rank) const { return detail::worker_name(rank, hosts_); }

std::vector<std::string> Workers::gather(const std::string& text, std::optional<double> patience) {
  const auto own = static_cast<std::size_t>(rank_);
  std::vector<std::string> all(static_cast<std::size_t>(count_));
  all[own] = text;
  if (count_ == 1) return all;
  std::vector<std::uint64_t> sizes(all.size());
  sizes[own] = text.size();
  const auto exchange = [&](int tag, auto bytes_of_worker) {
    detail::Exchange messages(*messages_, hosts_, patience.value_or(options_.patience));
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (r == own) continue;
      messages.receive(static_cast<int>(r), tag, bytes_of_worker(r));
      messages.send(static_cast<int>(r), tag, bytes_of_worker(own));
    }
    messages.wait();
  };
  exchange(0, [&](std::size_t r) { return std::as_writable_bytes(std::span(&sizes[r], 1)); });
  for (std::size_t r = 0; r < all.size(); ++r) all[r].resize(sizes[r]);
  exchange(1, [&](std::size_t r) { return std::as_writable_bytes(std::span(all[r])); });
  return all;
}

Workers::Sum Workers::backward(const Parameters& parameters, std::span<const double> weights,
                               const std::function<Var(Index shard)>& loss) {
  const Index shards = std::ssize(weights);
  if (shards < count_)
    fail("workers", "{} workers cannot share a batch of {} shard{}", count_, shards,
         shards == 1 ? "" : "s");
  if (shards == 1) {
    const Var one = loss(0);
    return {weights[0] * one.item(),
            attune::backward(one, full(one.shape(), weights[0], one.dtype()))};
  }
  const auto [begin, end] = shards_of(rank_, shards);
  detail::ShardTree tree;
  bool cancelled = false;
  try {
    for (Index shard = begin; shard < end; ++shard) {
      const double weight = weights[static_cast<std::size_t>(shard)];
      tree.push({0, shard, terms(parameters, weight == 0 ? Var() : loss(shard), weight)});
    }
  } catch (const Cancelled&) {
    cancelled = true;
  }
  for (const std::string& one : gather(cancelled ? "cancelled" : ""))
    if (!one.empty()) throw Cancelled();
  Terms sums = count_ == 1 ? tree.finish() : total(tree, shards);
  const double sum = sums.back().item();
  sums.pop_back();
  return {sum, Gradients(parameters, std::move(sums))};
}

std::vector<Tensor> Workers::total(const detail::ShardTree& own, Index shards) {
  constexpr int tag = 2;  // gather uses 0 and 1
  const Terms& like = own.nodes().front().sum;
  const std::vector<Piece> mine = part_of(like, rank_, count_);
  // This worker's part of each subtree, from left to right.
  std::vector<detail::ShardTree::Node> parts;
  detail::Exchange sums(*messages_, hosts_, options_.patience);
  for (int r = 0; r < count_; ++r) {
    if (r == rank_) {
      for (const auto& [level, index, sum] : own.nodes())
        parts.push_back({level, index, pieces_of(sum, mine)});
      continue;
    }
    const auto [begin, end] = shards_of(r, shards);
    detail::ShardTree theirs;  // has no sums; only its nodes are used
    for (Index shard = begin; shard < end; ++shard) theirs.push({0, shard, {}});
    for (const auto& [level, index, none] : theirs.nodes()) {
      parts.push_back({level, index, uninitialized_like(pieces_of(like, mine))});
      for (Tensor& x : parts.back().sum) sums.receive(r, tag, mutable_bytes_of(x));
    }
    for (const auto& node : own.nodes())
      for (const Tensor& x : pieces_of(node.sum, part_of(like, r, count_)))
        sums.send(r, tag, bytes_of(x));
  }
  sums.wait();
  detail::ShardTree tree;
  for (auto& part : parts) tree.push(std::move(part));
  const Terms part = tree.finish();

  Terms all = uninitialized_like(like);
  detail::Exchange totals(*messages_, hosts_, options_.patience);
  for (int r = 0; r < count_; ++r) {
    Terms theirs = pieces_of(all, part_of(like, r, count_));
    if (r == rank_) {
      for (std::size_t i = 0; i < part.size(); ++i) copy(part[i], theirs[i]);
      continue;
    }
    for (Tensor& x : theirs) totals.receive(r, tag + 1, mutable_bytes_of(x));
    for (const Tensor& x : part) totals.send(r, tag + 1, bytes_of(x));
  }
  totals.wait();
  return all;
}

}  // namespace attune::nn
