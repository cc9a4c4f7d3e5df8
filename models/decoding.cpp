#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <attune/models/decoding.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::models::detail {
namespace {

/// x (S, columns) -> (S)
std::vector<float> column(const char* operation, const Tensor& x, Index index) {
  std::vector<float> values(x.dim(0));
  visit_floating(operation, x, [&](auto zero) {
    const auto* from = x.data<decltype(zero)>() + index;
    for (float& value : values) {
      value = static_cast<float>(*from);
      from += x.dim(1);
    }
  });
  return values;
}

}  // namespace

/// The words of a hypothesis: a node for each, shared by its continuations.
struct Decoding::History {
  std::shared_ptr<History> before;
  std::int32_t word = 0;
  double log_probability = 0;  // of this word
  std::vector<float> weights;  // (S), empty without attention

  /// In a loop: a history of many words, freed by recursion, would not fit on the stack.
  ~History() {
    while (before && before.use_count() == 1) before = std::shared_ptr(std::move(before->before));
  }
};

Decoding::Decoding(const char* operation, const Tensor& mask, Index max_length, std::int32_t begin,
                   std::int32_t end, bool within_source)
    : operation_(operation), begin_(begin), end_(end) {
  if (max_length < 1) fail(operation, "max_length is less than 1");
  ShapeCheck check(operation);
  check("mask", mask.shape(), "S B");
  source_steps_ = check['S'];
  source_lengths_ = lengths_of(mask);
  finished_.resize(source_lengths_.size());
  for (std::size_t sentence = 0; sentence < finished_.size(); ++sentence) {
    if (source_lengths_[sentence] == 0)
      fail(operation, fmt::format("source {} has no words", sentence));
    running_.push_back({sentence, nullptr});
    most_words_.push_back(within_source ? std::min(max_length, source_lengths_[sentence])
                                        : max_length);
  }
}

Tensor Decoding::words() const {
  std::vector<std::int32_t> words;
  for (const Running& r : running_) words.push_back(r.last ? r.last->word : begin_);
  return Tensor::of(Shape{1, std::ssize(words)}, std::span<const std::int32_t>(words));
}

void Decoding::check_step(const Tensor& logits, const Tensor& weights) const {
  ShapeCheck check(operation_);
  check("logits", logits.shape(), "R V");
  if (end_ < 0 || end_ >= check['V'])
    fail(operation_, fmt::format("the end word {} is not in 0 to {}", end_, check['V'] - 1));
  if (check['R'] != std::ssize(running_)) {
    fail(operation_,
         fmt::format("{} hypotheses gave logits {}", running_.size(), to_string(logits.shape())));
  }
  if (!weights.defined()) return;
  check("weights", weights.shape(), "S R");
  if (check['S'] != source_steps_) {
    fail(operation_,
         fmt::format("{} places gave weights {}", source_steps_, to_string(weights.shape())));
  }
}

/// The candidates of each sentence that still runs, in the order of their rows.
std::vector<std::vector<Decoding::Candidate>> Decoding::candidates(const Tensor& logits) {
  const Tensor norms = log_sum_exp(logits, -1);
  for (double norm : norms.to_vector<double>()) {
    if (std::isnan(norm) || norm == std::numeric_limits<double>::infinity())
      fail(operation_, "the model's scores are not numbers");
  }
  std::vector<Index> begins;  // each sentence's first row, and their end
  for (std::size_t row = 0; row < running_.size(); ++row) {
    if (row == 0 || running_[row].sentence != running_[row - 1].sentence)
      begins.push_back(static_cast<Index>(row));
  }
  begins.push_back(std::ssize(running_));
  std::vector<std::vector<Candidate>> found(begins.size() - 1);
  parallel_for(std::ssize(found), [&](Index i) {
    const auto at = static_cast<std::size_t>(i);
    found[at] = choose({logits, norms, begins[at], begins[at + 1]});
    if (found[at].empty()) fail(operation_, "the model leaves no word possible");
  });
  return found;
}

Decoding::Running Decoding::extend(const Candidate& candidate, const Tensor& weights) const {
  const Running& from = running_[candidate.row];
  auto history = std::make_shared<History>();
  history->before = from.last;
  history->word = candidate.word;
  history->log_probability = candidate.total - from.log_probability;
  if (weights.defined()) history->weights = column(operation_, weights, candidate.row);
  return {from.sentence, std::move(history), candidate.total, from.length + 1};
}

void Decoding::finish(const Running& end, bool complete) {
  Hypothesis h;
  h.complete = complete;
  h.log_probability = end.log_probability;
  const Index s = source_lengths_[end.sentence];
  std::vector<const History*> steps;
  for (const History* at = end.last.get(); at; at = at->before.get()) steps.push_back(at);
  std::ranges::reverse(steps);
  std::vector<float> weights;
  for (const History* step : steps) {
    h.words.push_back(step->word);
    h.word_log_probabilities.push_back(step->log_probability);
    if (step->weights.empty()) continue;
    weights.insert(weights.end(), step->weights.begin(), step->weights.begin() + s);
  }
  if (complete) h.words.pop_back();
  if (!weights.empty()) {
    h.weights = Tensor::of(Shape{std::ssize(steps), s}, std::span<const float>(weights));
  }
  h.score = score(h);
  finished_[end.sentence].push_back(std::move(h));
}

/// What ends is finished, what goes on becomes the rows of the next step.
void Decoding::advance(const Tensor& logits, const Tensor& weights_of_heads) {
  const Tensor weights =
      weights_of_heads.rank() == 3 ? mean(weights_of_heads, {0}) : weights_of_heads;
  check_step(logits, weights);
  std::vector<Running> next;
  std::vector<std::int32_t> parents;
  for (const std::vector<Candidate>& found : candidates(logits)) {
    const std::size_t first = next.size();
    std::size_t sentence = 0;
    std::vector<Index> cut_off;  // rows, each once
    for (const Candidate& candidate : found) {
      const Running& from = running_[candidate.row];
      sentence = from.sentence;
      if (candidate.word == end_) {
        finish(extend(candidate, weights), /*complete=*/true);
      } else if (from.length < most_words_[sentence]) {
        next.push_back(extend(candidate, weights));
        parents.push_back(static_cast<std::int32_t>(candidate.row));
      } else if (std::ranges::find(cut_off, candidate.row) == cut_off.end()) {
        cut_off.push_back(candidate.row);
        finish(from, /*complete=*/false);
      }
    }
    if (settled(sentence, std::span(next).subspan(first))) {
      next.resize(first);
      parents.resize(first);
    }
  }
  std::vector<std::int32_t> unmoved(running_.size());
  std::iota(unmoved.begin(), unmoved.end(), 0);
  rows_moved_ = parents != unmoved;
  rows_ = Tensor::of(Shape{std::ssize(parents)}, std::span<const std::int32_t>(parents));
  running_ = std::move(next);
}

}  // namespace attune::models::detail
