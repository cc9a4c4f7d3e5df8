#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <attune/models/ctc.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/ctc.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::models {
namespace {

void check(const Tensor& logits, const Tensor& mask, std::int32_t blank) {
  ShapeCheck("ctc")("logits", logits.shape(), "T B V")("mask", mask.shape(), "T B");
  if (blank >= 0 && blank < logits.dim(2)) return;
  fail("ctc", fmt::format("the blank, {}, is not in 0 to {}", blank, logits.dim(2) - 1));
}

/// The log-probabilities of all paths to a prefix: those that end with a blank, and with its last
/// label.
struct Ends {
  double blank = log_zero, label = log_zero;
  double total() const { return log_add(blank, label); }
};

using Prefixes = std::map<text::Sentence, Ends>;

/// One frame further: log_p (V) are the log-probabilities of its symbols.
Prefixes advance(const Prefixes& before, std::span<const double> log_p, std::int32_t blank) {
  Prefixes next;
  for (const auto& [prefix, ends] : before) {
    Ends& same = next[prefix];
    same.blank = log_add(same.blank, ends.total() + log_p[blank]);
    if (!prefix.empty()) same.label = log_add(same.label, ends.label + log_p[prefix.back()]);
    text::Sentence longer = prefix;
    longer.push_back(0);
    for (std::int32_t v = 0; v < std::ssize(log_p); ++v) {
      // After the same label only a path with a blank between them is a longer prefix.
      const double from = !prefix.empty() && prefix.back() == v ? ends.blank : ends.total();
      if (v == blank || from + log_p[v] == log_zero) continue;
      longer.back() = v;
      Ends& extended = next[longer];
      extended.label = log_add(extended.label, from + log_p[v]);
    }
  }
  return next;
}

/// Best first; among equals the smaller labels.
std::vector<CtcHypothesis> ranked(const Prefixes& prefixes) {
  std::vector<CtcHypothesis> all;
  for (const auto& [prefix, ends] : prefixes) {
    const double total = ends.total();
    if (total != log_zero) all.push_back({prefix, total});
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &CtcHypothesis::log_probability);
  return all;
}

/// The best prefixes alone.
void prune(Prefixes& prefixes, std::size_t beam) {
  if (prefixes.size() <= beam) return;
  const std::vector<CtcHypothesis> all = ranked(prefixes);
  for (std::size_t i = beam; i < all.size(); ++i) prefixes.erase(all[i].labels);
}

}  // namespace

std::vector<text::Sentence> ctc_greedy(const Tensor& logits, const Tensor& mask,
                                       std::int32_t blank) {
  check(logits, mask, blank);
  const std::vector<std::int32_t> best = argmax(logits).to_vector<std::int32_t>();
  const auto frames = lengths_of(mask);
  std::vector<text::Sentence> sentences(frames.size());
  for (std::size_t b = 0; b < frames.size(); ++b) {
    std::int32_t before = blank;
    for (Index t = 0; t < frames[b]; ++t) {
      const std::int32_t symbol = best[t * frames.size() + b];
      if (symbol != blank && symbol != before) sentences[b].push_back(symbol);
      before = symbol;
    }
  }
  return sentences;
}

std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Tensor& mask,
                                                   const CtcSearchOptions& o) {
  check(logits, mask, o.blank);
  if (o.best < 1 || o.best > o.beam) fail("ctc", "best is not in 1 to beam");
  const Tensor log_p = log_softmax(logits.to(DType::f64), -1);
  const auto frames = lengths_of(mask);
  std::vector<std::vector<CtcHypothesis>> results(frames.size());
  const Index v = logits.dim(2);
  parallel_for(std::ssize(frames), [&](Index b) {
    Prefixes prefixes{{{}, {.blank = 0}}};
    for (Index t = 0; t < frames[b]; ++t) {
      const double* row = log_p.data<double>() + (t * std::ssize(frames) + b) * v;
      if (std::isnan(row[0])) fail("ctc", "a logit is NaN");  // and so are all of the frame
      prefixes = advance(prefixes, {row, static_cast<std::size_t>(v)}, o.blank);
      prune(prefixes, static_cast<std::size_t>(o.beam));
    }
    results[b] = ranked(prefixes);
    results[b].resize(std::min(results[b].size(), static_cast<std::size_t>(o.best)));
  });
  return results;
}

}  // namespace attune::models
