// Evaluation: predictions and metrics. After a signal, these functions throw Interrupted.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "data.hpp"

namespace attune::pairs {

/// Counts of exact matches and token errors.
struct Counts {
  metrics::Edits edits;
  std::int64_t examples = 0, right = 0;  // right: without any edit

  double share_right() const { return 1.0 * right / examples; }
  Counts& operator+=(const Counts& other);
};

/// Counts by target length in tokens.
using CountsByLength = std::map<std::size_t, Counts>;

/// Table: headings, then at most 20 rows, one per length ("7"), or per range of equal width
/// ("10 to 19").
TableRows rows_by_length(const CountsByLength& counts);
/// A row: name, examples, exact match in percent, token error in percent, substitutions, deletions,
/// insertions.
std::vector<std::string> row_of(const std::string& name, const Counts& counts);

/// Search options with the model's defaults for maximum length and length penalty α.
models::SearchOptions search_for(Models models, const UseOptions& options);

/// The best prediction for a source.
struct Written {
  std::string text;
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
  bool complete = true;  // false: truncated at max_length
  bool right = false;    // equals the target
};

/// Confusion matrix: number of occurrences of each (expected, written) pair of tokens.
using Confusions = std::map<metrics::TokenPair, Index>;
/// An entry of the confusion matrix; "∅" is no token.
struct Confusion {
  std::string expected, written;
  Index times;
};

struct Evaluation {
  std::vector<Written> written;  // one per source
  /// Token errors by target length; if tokens are subwords, errors of words (split at blanks).
  CountsByLength counts;
  Confusions confusions;  // empty if tokens are subwords
  double bleu = 0, chrf = 0;
  double loss = 0;  // per target token, </s> included

  Counts total() const;
  double exact_match() const { return total().share_right(); }
  double token_error() const { return total().edits.rate(); }
  double perplexity() const { return std::exp(loss); }
  std::vector<std::string> lines() const;
};

/// Computes the loss, predicts, and measures the predictions. All workers share the work.
Evaluation evaluate(Models models, const TestPairs& pairs, const models::SearchOptions& search,
                    metrics::BleuTokens bleu);

/// An evaluated model or ensemble, on the given files or otherwise on the validation pairs.
struct Measured {
  Measured(const UseOptions& options, std::vector<std::filesystem::path> files);

  const Model& first() const { return models.front(); }
  bool sentences() const { return first().of_sentences(); }
  std::vector<metrics::BleuStatistics> statistics() const;  // per pair
  /// Change of the task's metric, BLEU or the percentage of exact matches, from `other` to this.
  metrics::PairedBootstrap change_from(const Measured& other) const;
  std::vector<metrics::LengthBucket> by_length(std::span<const std::int64_t> limits) const;
  /// The most frequent confusions.
  std::vector<Confusion> confusions(std::size_t most) const;

  std::vector<std::filesystem::path> files;
  std::vector<Model> models;
  TestPairs pairs;
  models::SearchOptions search;
  metrics::BleuTokens bleu;
  Evaluation result;
  double seconds = 0;
};

/// "exact match 99.50 %, token error 0.05 %", or BLEU and chrF for sentences; then perplexity.
std::string summary(const Evaluation& result, bool sentences);

}  // namespace attune::pairs
