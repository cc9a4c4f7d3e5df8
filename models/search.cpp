#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/models/search.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune::models::detail {
namespace {

constexpr Index block = 128;  // words that are passed over at once
constexpr double least_coverage = 1e-10;

const SearchOptions& checked(const SearchOptions& o) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) fail("search", what);
  };
  require(o.beam >= 1, fmt::format("the beam {} is less than 1", o.beam));
  require(o.best >= 1 && o.best <= o.beam,
          fmt::format("best {} is not in 1 to beam {}", o.best, o.beam));
  require(std::isfinite(o.length_penalty), "the length penalty is not finite");
  require(std::isfinite(o.coverage_penalty) && o.coverage_penalty >= 0,
          "the coverage penalty is not finite and at least 0");
  return o;
}

/// Σ_i log(min(Σ_j p_ij, 1)) of weights (steps, S)
double log_coverage(const Tensor& weights) {
  double total = 0;
  for (double covered : sum(weights, {0}).to_vector<double>())
    total += std::log(std::clamp(covered, least_coverage, 1.0));
  return total;
}

}  // namespace

Beam::Beam(const Tensor& source_mask, const SearchOptions& options)
    : Decoding("search", source_mask, options.max_length, options.begin, options.end,
               options.within_source),
      options_(checked(options)) {}

/// The best continuations of a sentence's rows, as many as there are places left, best first. Among
/// equals the earlier row comes first, then the smaller word.
std::vector<Decoding::Candidate> Beam::choose(const Scores& s) {
  const std::size_t sentence = running_[s.begin].sentence;
  const auto count = static_cast<std::size_t>(options_.beam) - finished_[sentence].size();
  return visit_floating("search", s.logits, [&](auto zero) {
    using T = decltype(zero);
    const Index v = s.logits.dim(1);
    std::vector<Candidate> best;  // sorted; short
    const auto enters = [&](double total) {
      return best.size() < count ? total > -std::numeric_limits<double>::infinity()
                                 : total > best.back().total;
    };
    for (Index row = s.begin; row < s.end; ++row) {
      const double before = running_[row].log_probability;
      const T* logits = s.logits.data<T>() + row * v;
      const T norm = s.log_sum_exp.data<T>()[row];
      const auto total = [&](T logit) { return before + static_cast<double>(logit - norm); };
      for (Index from = 0; from < v; from += block) {
        const Index to = std::min(v, from + block);
        if (!enters(total(simd::largest(logits + from, to - from)))) continue;
        for (Index word = from; word < to; ++word) {
          const Candidate candidate{row, static_cast<std::int32_t>(word), total(logits[word])};
          if (!enters(candidate.total)) continue;
          best.insert(std::ranges::upper_bound(best, candidate.total, std::ranges::greater(),
                                               &Candidate::total),
                      candidate);
          if (best.size() > count) best.pop_back();
        }
      }
    }
    return best;
  });
}

/// log P / lp
double Beam::normalized(double log_probability, Index length) const {
  const auto n = static_cast<double>(length);
  const bool shifted = options_.length_normalization == LengthNormalization::shifted;
  return log_probability / std::pow(shifted ? (5 + n) / 6 : n, options_.length_penalty);
}

double Beam::score(const Hypothesis& h) const {
  const double score = normalized(h.log_probability, std::ssize(h.word_log_probabilities));
  if (options_.coverage_penalty == 0) return score;
  if (!h.weights.defined())
    fail("search", "there is a coverage penalty, but the model has no attention");
  return score + options_.coverage_penalty * log_coverage(h.weights);
}

bool Beam::settled(std::size_t sentence, std::span<const Running> running) const {
  std::vector<double> scores;  // of complete hypotheses
  for (const Hypothesis& h : finished_[sentence])
    if (h.complete) scores.push_back(h.score);
  if (std::ssize(scores) < options_.best) return false;
  std::ranges::sort(scores, std::ranges::greater());
  const double last = scores[static_cast<std::size_t>(options_.best) - 1];
  return std::ranges::all_of(running, [&](const Running& r) {
    return last >= std::max(normalized(r.log_probability, r.length + 1),
                            normalized(r.log_probability, options_.max_length + 1));
  });
}

std::vector<std::vector<Hypothesis>> Beam::results() const {
  std::vector<std::vector<Hypothesis>> results = finished_;
  for (auto& hypotheses : results) {
    std::ranges::stable_sort(hypotheses, std::ranges::greater(),
                             [](const Hypothesis& h) { return std::pair(h.complete, h.score); });
    hypotheses.resize(std::min(hypotheses.size(), static_cast<std::size_t>(options_.best)));
  }
  return results;
}

}  // namespace attune::models::detail
