#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <attune/models/search.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models::detail {
namespace {

/// The history of a running hypothesis: a node for each word, shared by its continuations.
struct History {
  std::shared_ptr<History> before;
  std::int32_t word = 0;
  double log_probability = 0;  // of this word
  std::vector<float> weights;  // (S), empty without attention

  /// In a loop: a history of many words, freed by recursion, would not fit on the stack.
  ~History() {
    while (before && before.use_count() == 1) before = std::shared_ptr(std::move(before->before));
  }
};

/// A hypothesis that goes on.
struct Running {
  std::size_t sentence;
  std::shared_ptr<History> last;
  double log_probability = 0;
  Index length = 0;
};

/// A word that may follow a running hypothesis.
struct Candidate {
  Index row;
  std::int32_t word;
  double total;  // log-probability of the whole
};

/// Higher totals first; among equals the earlier row, then the smaller word.
bool better(const Candidate& a, const Candidate& b) {
  if (a.total != b.total) return a.total > b.total;
  return std::pair(a.row, a.word) < std::pair(b.row, b.word);
}

/// x (S, columns) -> (S)
std::vector<float> column(const Tensor& x, Index index) {
  std::vector<float> values(static_cast<std::size_t>(x.dim(0)));
  visit_floating("search", x, [&](auto zero) {
    const auto* from = x.data<decltype(zero)>() + index;
    for (float& value : values) {
      value = static_cast<float>(*from);
      from += x.dim(1);
    }
  });
  return values;
}

const SearchOptions& checked(const SearchOptions& o) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) fail("search", what);
  };
  require(o.beam >= 1, "the beam is less than 1");
  require(o.max_length >= 1, "max_length is less than 1");
  require(o.best >= 1 && o.best <= o.beam, "best is not in 1 to beam");
  require(std::isfinite(o.length_penalty), "the length penalty is not finite");
  return o;
}

}  // namespace

struct Beam::Implementation {
  SearchOptions options;
  Index source_steps = 0;
  std::vector<Index> source_lengths;
  std::vector<Running> running;  // one for each row of the model's next step
  std::vector<std::vector<Hypothesis>> finished;
  Tensor rows;
  bool rows_moved = false;

  Implementation(const Tensor& mask, const SearchOptions& o) : options(checked(o)) {
    ShapeCheck check("search");
    check("mask", mask.shape(), "S B");
    const std::vector<double> m = mask.to_vector<double>();
    const auto batch = static_cast<std::size_t>(check['B']);
    source_steps = check['S'];
    source_lengths.assign(batch, 0);
    for (std::size_t i = 0; i < m.size(); ++i) source_lengths[i % batch] += m[i] != 0;
    finished.resize(batch);
    for (std::size_t sentence = 0; sentence < batch; ++sentence) {
      if (source_lengths[sentence] == 0)
        fail("search", fmt::format("source {} has no words", sentence));
      running.push_back({sentence, nullptr});
    }
  }

  double score(double log_probability, Index length) const {
    return log_probability / std::pow(static_cast<double>(length), options.length_penalty);
  }

  /// The best `count` continuations of rows [begin, end), best first.
  std::vector<Candidate> best_candidates(const Tensor& log_probabilities, Index begin, Index end,
                                         Index count) const {
    const Index v = log_probabilities.dim(1);
    return visit_floating("search", log_probabilities, [&](auto zero) {
      const auto* scores = log_probabilities.data<decltype(zero)>();
      std::vector<Candidate> best;  // sorted; short
      for (Index row = begin; row < end; ++row) {
        const double before = running[static_cast<std::size_t>(row)].log_probability;
        for (Index word = 0; word < v; ++word) {
          const double score = scores[row * v + word];
          if (std::isnan(score)) fail("search", "the model's scores are not numbers");
          if (score == -std::numeric_limits<double>::infinity()) continue;  // impossible
          const Candidate candidate{row, static_cast<std::int32_t>(word), before + score};
          if (static_cast<Index>(best.size()) == count && !better(candidate, best.back())) continue;
          best.insert(std::ranges::upper_bound(best, candidate, better), candidate);
          if (static_cast<Index>(best.size()) > count) best.pop_back();
        }
      }
      return best;
    });
  }

  Running extend(const Candidate& candidate, const Tensor& weights) const {
    const Running& from = running[static_cast<std::size_t>(candidate.row)];
    auto history = std::make_shared<History>();
    history->before = from.last;
    history->word = candidate.word;
    history->log_probability = candidate.total - from.log_probability;
    if (weights.defined()) history->weights = column(weights, candidate.row);
    return {from.sentence, std::move(history), candidate.total, from.length + 1};
  }

  void finish(const Running& end, bool complete) {
    Hypothesis h;
    h.complete = complete;
    h.log_probability = end.log_probability;
    h.score = score(end.log_probability, end.length);
    const Index s = source_lengths[end.sentence];
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
      h.weights =
          Tensor::of(Shape{static_cast<Index>(steps.size()), s}, std::span<const float>(weights));
    }
    finished[end.sentence].push_back(std::move(h));
  }

  /// One sentence's rows [begin, end): what ends is finished, what goes on is added to `next`.
  void advance_sentence(const Tensor& log_probabilities, const Tensor& weights, Index begin,
                        Index end, std::vector<Running>& next, std::vector<std::int32_t>& parents) {
    const std::size_t sentence = running[static_cast<std::size_t>(begin)].sentence;
    const Index wanted = options.beam - static_cast<Index>(finished[sentence].size());
    const auto best = best_candidates(log_probabilities, begin, end, wanted);
    if (best.empty()) fail("search", "the model leaves no word possible");
    std::vector<bool> cut_off(static_cast<std::size_t>(end - begin));  // each row once
    for (const Candidate& candidate : best) {
      const Running extended = extend(candidate, weights);
      if (candidate.word == text::Vocabulary::end) {
        finish(extended, /*complete=*/true);
      } else if (extended.length <= options.max_length) {
        next.push_back(extended);
        parents.push_back(static_cast<std::int32_t>(candidate.row));
      } else if (const auto row = static_cast<std::size_t>(candidate.row - begin); !cut_off[row]) {
        cut_off[row] = true;
        finish(running[static_cast<std::size_t>(candidate.row)], /*complete=*/false);
      }
    }
  }
};

Beam::Beam(const Tensor& source_mask, const SearchOptions& options)
    : implementation_(std::make_unique<Implementation>(source_mask, options)) {}
Beam::~Beam() = default;

bool Beam::done() const { return implementation_->running.empty(); }

Tensor Beam::words() const {
  std::vector<std::int32_t> words;
  for (const Running& r : implementation_->running)
    words.push_back(r.last ? r.last->word : text::Vocabulary::begin);
  return Tensor::of(Shape{static_cast<Index>(words.size())}, std::span<const std::int32_t>(words));
}

const Tensor* Beam::rows() const {
  return implementation_->rows_moved ? &implementation_->rows : nullptr;
}

void Beam::advance(const Tensor& log_probabilities, const Tensor& weights_of_heads) {
  Implementation& self = *implementation_;
  const auto count = static_cast<Index>(self.running.size());
  const Tensor weights =
      weights_of_heads.rank() == 3 ? mean(weights_of_heads, {0}) : weights_of_heads;
  ShapeCheck check("search");
  check("log_probabilities", log_probabilities.shape(), "R V");
  if (check['R'] != count) {
    fail("search", fmt::format("{} hypotheses gave log-probabilities {}", count,
                               to_string(log_probabilities.shape())));
  }
  if (weights.defined()) check("weights", weights.shape(), "S R");
  if (weights.defined() && check['S'] != self.source_steps) {
    fail("search",
         fmt::format("{} places gave weights {}", self.source_steps, to_string(weights.shape())));
  }
  std::vector<Running> next;
  std::vector<std::int32_t> parents;
  for (Index begin = 0, end; begin < count; begin = end) {
    const std::size_t sentence = self.running[static_cast<std::size_t>(begin)].sentence;
    end = begin + 1;
    while (end < count && self.running[static_cast<std::size_t>(end)].sentence == sentence) ++end;
    self.advance_sentence(log_probabilities, weights, begin, end, next, parents);
  }
  std::vector<std::int32_t> unmoved(static_cast<std::size_t>(count));
  std::iota(unmoved.begin(), unmoved.end(), 0);
  self.rows_moved = parents != unmoved;
  self.rows =
      Tensor::of(Shape{static_cast<Index>(parents.size())}, std::span<const std::int32_t>(parents));
  self.running = std::move(next);
}

std::vector<std::vector<Hypothesis>> Beam::results() const {
  std::vector<std::vector<Hypothesis>> results = implementation_->finished;
  for (auto& hypotheses : results) {
    std::ranges::stable_sort(hypotheses, std::ranges::greater(),
                             [](const Hypothesis& h) { return std::pair(h.complete, h.score); });
    hypotheses.resize(
        std::min(hypotheses.size(), static_cast<std::size_t>(implementation_->options.best)));
  }
  return results;
}

}  // namespace attune::models::detail
