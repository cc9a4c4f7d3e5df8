#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <set>

#include <fmt/format.h>

#include <attune/models/metrics/symmetrise.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {
namespace {

using Links = std::set<text::Link>;

Links links_of(const text::Alignment& alignment) {
  for (const auto& [source, target] : alignment) {
    constexpr int kLargest = std::numeric_limits<int>::max() - 1;  // it has a neighbour
    if (std::min(source, target) >= 0 && std::max(source, target) <= kLargest) continue;
    fail("symmetrise", fmt::format("a link is ({}, {}), but positions are between 0 and {}", source,
                                   target, kLargest));
  }
  return {alignment.begin(), alignment.end()};
}

/// An alignment that only grows, and which words it links.
class Growing {
 public:
  explicit Growing(const Links& start) {
    for (const text::Link& link : start) insert(link);
  }

  const Links& links() const { return links_; }

  /// True when it was not there yet and its words were free.
  bool add(const text::Link& link, Unlinked condition) {
    if (links_.contains(link)) return false;
    const bool source = !sources_.contains(link.source), target = !targets_.contains(link.target);
    if (condition == Unlinked::both ? !(source && target) : !(source || target)) return false;
    insert(link);
    return true;
  }

 private:
  void insert(const text::Link& link) {
    links_.insert(link);
    sources_.insert(link.source);
    targets_.insert(link.target);
  }

  Links links_;
  std::set<int> sources_, targets_;
};

void grow(Growing& alignment, const Links& candidates, Unlinked condition) {
  constexpr std::array<text::Link, 8> kNeighbours = {
      {{-1, 0}, {0, -1}, {1, 0}, {0, 1}, {-1, 1}, {-1, -1}, {1, -1}, {1, 1}}};
  for (bool added = true; added;) {
    added = false;
    // A set's iterators stay valid, and come by what is inserted behind them.
    for (const text::Link& link : alignment.links()) {
      for (const text::Link& step : kNeighbours) {
        const text::Link next{link.source + step.source, link.target + step.target};
        if (candidates.contains(next) && alignment.add(next, condition)) added = true;
      }
    }
  }
}

}  // namespace

text::Alignment symmetrise(const text::Alignment& forward, const text::Alignment& backward,
                           const SymmetriseOptions& options) {
  const Links f = links_of(forward), b = links_of(backward);
  Links common, all = f;
  std::ranges::set_intersection(f, b, std::inserter(common, common.end()));
  all.insert(b.begin(), b.end());
  if (options.method == Symmetrisation::intersection) return {common.begin(), common.end()};
  if (options.method == Symmetrisation::unite) return {all.begin(), all.end()};
  Growing alignment(common);
  grow(alignment, all, options.grow);
  if (options.method == Symmetrisation::grow_diag_final) {
    for (const text::Link& link : f) alignment.add(link, options.final);
    for (const text::Link& link : b) alignment.add(link, options.final);
  }
  return {alignment.links().begin(), alignment.links().end()};
}

}  // namespace attune::metrics
