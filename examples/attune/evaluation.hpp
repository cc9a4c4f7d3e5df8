// What models predict, and how good that is. All of it throws Interrupted.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <attune/models/metrics.hpp>
#include <attune/models/search.hpp>

#include "data.hpp"

namespace attune::pairs {

/// How often sequences were written right, and their tokens wrong.
struct Counts {
  metrics::Edits edits;
  std::int64_t examples = 0, right = 0;  // right: without any edit

  double share_right() const { return static_cast<double>(right) / static_cast<double>(examples); }
  Counts& operator+=(const Counts& other);
};

/// By the number of tokens that were expected.
using CountsByLength = std::map<std::size_t, Counts>;

/// The rows of a table: one for each length or, where these are many, for ranges of equal width,
/// named "7" or "10 to 19". At most 20.
TableRows rows_by_length(const CountsByLength& counts);
/// Behind the name: examples, percent right, token error in percent, substitutions, deletions and
/// insertions.
std::vector<std::string> row_of(const std::string& name, const Counts& counts);

/// How to search, with what was left to the model: its longest prediction, and α.
models::SearchOptions search_for(Models models, models::SearchOptions search);

/// What was written for a source, the likeliest.
struct Written {
  std::string text;
  std::vector<std::int32_t> tokens;
  double log_probability = 0;
  bool complete = true;  // otherwise it is cut at max_length
  bool right = false;    // it is the target
};

/// How often a token was written for another, by what was expected and written: a confusion matrix.
using Confusions = std::map<metrics::TokenPair, Index>;
/// The most frequent ones, as expected, written and how often; "∅" is nothing.
TableRows most_frequent(const Confusions& confusions, const text::Vocabulary& target,
                        std::size_t most);

struct Evaluation {
  std::vector<Written> written;  // of each source
  /// Edits between tokens, by the number of those expected; where tokens are subwords, between the
  /// words that stand between blanks.
  CountsByLength counts;
  Confusions confusions;  // empty where tokens are subwords
  double bleu = 0, chrf = 0;
  double loss = 0;  // per target token, </s> included

  Counts total() const;
  double exact_match() const { return total().share_right(); }
  double token_error() const { return total().edits.rate(); }
  double perplexity() const { return std::exp(loss); }
  std::vector<std::string> lines() const;
  std::size_t cut() const;
};

/// All workers share the work.
Evaluation evaluate(Models models, const TestPairs& pairs, const models::SearchOptions& search,
                    metrics::BleuTokens bleu);

/// Models, and what they make of pairs: of the files given or, without, of those that the models
/// were chosen by.
struct Measured {
  Measured(const UseOptions& options, std::vector<std::filesystem::path> files);

  const Model& first() const { return models.front(); }
  bool sentences() const { return first().of_sentences(); }
  std::vector<metrics::BleuStatistics> statistics() const;  // of each pair
  std::vector<metrics::LengthBucket> by_length(std::span<const std::int64_t> limits) const;

  std::vector<std::filesystem::path> files;
  std::vector<Model> models;
  TestPairs pairs;
  models::SearchOptions search;
  metrics::BleuTokens bleu;
  Evaluation result;
  double seconds = 0;
};

/// "exact match 99.50 %, token error 0.05 %", or BLEU and chrF of sentences; perplexity.
std::string summary(const Evaluation& result, bool sentences);

}  // namespace attune::pairs
