// Writing a batch of sentences word by word: what search and sampling have in common.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/hypothesis.hpp>

namespace attune::models {

namespace detail {

/// The bookkeeping of a batch: which hypotheses go on, and which are finished. A sentence that is
/// finished takes no more part in the steps. A derived class chooses the words.
class Decoding {
 public:
  virtual ~Decoding() = default;

  bool done() const { return running_.empty(); }
  /// The words written last, one for each running hypothesis: (1, rows) i32.
  Tensor words() const;
  /// For each running hypothesis the row of the model's state that it continues (i32); null when
  /// these are rows 0, 1, 2, ..., so that nothing has to move.
  const Tensor* rows() const { return rows_moved_ ? &rows_ : nullptr; }
  /// logits (rows, V) and weights (S, rows), (heads, S, rows) or undefined of the step.
  void advance(const Tensor& logits, const Tensor& weights_of_heads);

 protected:
  struct History;

  /// A hypothesis that goes on.
  struct Running {
    std::size_t sentence;
    std::shared_ptr<History> last;  // null before the first word
    double log_probability = 0;
    Index length = 0;
  };

  /// A word that may follow a running hypothesis.
  struct Candidate {
    Index row;
    std::int32_t word;
    double total;  // log-probability of the whole
  };

  /// What the model says of the rows of one sentence.
  struct Scores {
    const Tensor& logits;       // (rows, V), of all sentences
    const Tensor& log_sum_exp;  // (rows)
    Index begin, end;           // the sentence's rows
  };

  Decoding(const char* operation, const Tensor& source_mask, Index max_length, std::int32_t begin,
           std::int32_t end, bool within_source = false);
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  /// The words that come next, for one sentence. Called for several sentences in parallel.
  virtual std::vector<Candidate> choose(const Scores& scores) = 0;
  /// What a finished hypothesis is ranked by.
  virtual double score(const Hypothesis& finished) const { return finished.log_probability; }
  /// Whether the hypotheses in `running` can no longer change the sentence's result.
  virtual bool settled(std::size_t, std::span<const Running>) const { return false; }

  const char* operation_;
  std::vector<Running> running_;  // one for each row of the model's next step
  std::vector<std::vector<Hypothesis>> finished_;

 private:
  void check_step(const Tensor& logits, const Tensor& weights) const;
  std::vector<std::vector<Candidate>> candidates(const Tensor& logits);
  Running extend(const Candidate& candidate, const Tensor& weights) const;
  void finish(const Running& end, bool complete);

  Index source_steps_;
  std::vector<Index> most_words_;  // of each sentence
  std::int32_t begin_, end_;
  std::vector<Index> source_lengths_;
  Tensor rows_;
  bool rows_moved_ = false;
};

/// Runs a model until all sentences of a batch are finished.
template <Decoder M, Source Encoded>
void decode(const M& model, const Encoded& encoded, Decoding& decoding) {
  const detail::Inference inference;
  auto state = model.start(encoded);
  while (!decoding.done()) {
    if (const Tensor* rows = decoding.rows()) state = model.select(state, *rows);
    const auto words = model.read(decoding.words());
    auto step = model.step(words[0], state);
    const Var weights = step.weights;
    std::vector<typename M::Output> outputs;
    outputs.push_back(std::move(step.output));
    decoding.advance(Var(model.logits(words, outputs)).value()[0], weights.value());
    state = std::move(step.state);
  }
}

}  // namespace detail
}  // namespace attune::models
