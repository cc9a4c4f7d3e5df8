#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <attune/models/metrics/alignment_error_rate.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {
namespace {

using text::Alignment;

Alignment both(const Alignment& a, const Alignment& b) {
  Alignment links;
  std::ranges::set_intersection(a, b, std::back_inserter(links));
  return links;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

void check_positions(const Alignment& links, std::size_t sentence, const char* which) {
  for (const auto& [source, target] : links) {
    if (source >= 0 && target >= 0) continue;
    fail("alignment_error_rate",
         fmt::format("sentence {}: a {} link is ({}, {}), but positions count from 0", sentence,
                     which, source, target));
  }
}

}  // namespace

double AlignmentScore::error_rate() const { return 1 - share(in_sure + in_possible, links + sure); }
double AlignmentScore::precision() const { return share(in_possible, links); }
double AlignmentScore::recall() const { return share(in_sure, sure); }

AlignmentScore alignment_error_rate(std::span<const Alignment> found,
                                    std::span<const text::GoldAlignment> gold) {
  if (found.size() != gold.size()) {
    fail("alignment_error_rate",
         fmt::format("{} sentences, but {} of gold", found.size(), gold.size()));
  }
  AlignmentScore score;
  for (std::size_t i = 0; i < found.size(); ++i) {
    check_positions(found[i], i, "found");
    check_positions(gold[i].sure, i, "sure");
    check_positions(gold[i].possible, i, "possible");
    const Alignment a = text::sorted(found[i]), s = text::sorted(gold[i].sure);
    Alignment p = gold[i].possible;
    p.insert(p.end(), s.begin(), s.end());
    score.links += a.size();
    score.sure += s.size();
    score.in_sure += both(a, s).size();
    score.in_possible += both(a, text::sorted(std::move(p))).size();
  }
  return score;
}

}  // namespace attune::metrics
