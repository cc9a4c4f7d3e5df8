// In which order the sums of shards are added. Not installed.
#pragma once

#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::nn::detail {

/// The shards [index · 2^level, (index + 1) · 2^level).
struct Subtree {
  int level;
  Index index;
  bool operator==(const Subtree&) const = default;
};

/// Adds the values of shards 0, 1, 2, ... in a fixed tree: two neighbouring subtrees with the same
/// number of shards, the left one with an even index, are added to make one. Subtrees that remain
/// at the end are added from the right. So the sum does not depend on which worker added which
/// subtrees.
template <class T>
class ShardTree {
 public:
  struct Node {
    Subtree of;
    T sum;
  };

  /// Left to right. `add(left, right)` is left += right.
  template <class Add>
  void push(Subtree of, T sum, const Add& add) {
    while (!nodes_.empty() && nodes_.back().of.level == of.level && of.index % 2 == 1 &&
           nodes_.back().of.index == of.index - 1) {
      add(nodes_.back().sum, sum);
      sum = std::move(nodes_.back().sum);
      of = {of.level + 1, of.index / 2};
      nodes_.pop_back();
    }
    nodes_.push_back({of, std::move(sum)});
  }

  /// The sum of all. There must be one.
  template <class Add>
  T finish(const Add& add) {
    while (nodes_.size() > 1) {
      add(nodes_[nodes_.size() - 2].sum, nodes_.back().sum);
      nodes_.pop_back();
    }
    T sum = std::move(nodes_.back().sum);
    nodes_.clear();
    return sum;
  }

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
};

/// What is left of shards [begin, end) when all neighbours among them were added.
inline std::vector<Subtree> subtrees(Index begin, Index end) {
  ShardTree<int> tree;
  for (Index shard = begin; shard < end; ++shard) tree.push({0, shard}, 0, [](int, int) {});
  std::vector<Subtree> all;
  for (const auto& node : tree.nodes()) all.push_back(node.of);
  return all;
}

}  // namespace attune::nn::detail
