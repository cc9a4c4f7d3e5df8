// What models predict, and how good that is. All of it throws Interrupted.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <attune/models/metrics.hpp>
#include <attune/models/search.hpp>

#include "data.hpp"
#include "error_counts.hpp"

namespace attune::pairs {

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
std::vector<std::vector<std::string>> most_frequent(const Confusions& confusions,
                                                    const text::Vocabulary& target,
                                                    std::size_t most);

struct Evaluation {
  std::vector<Written> written;  // of each source
  /// Edits between tokens, by the number of those expected; where tokens are subwords, between the
  /// words that stand between blanks.
  CountsByLength counts;
  Confusions confusions;  // empty where tokens are subwords
  double bleu = 0, chrf = 0;
  double loss = 0;  // per target token, </s> included

  Counts total() const { return attune::total(counts); }
  double exact_match() const { return total().share_right(); }
  double token_error() const { return total().edits.rate(); }
  double perplexity() const { return std::exp(loss); }
  std::vector<std::string> lines() const;
  std::size_t cut() const;
};

/// All workers share the work.
Evaluation evaluate(Models models, const TestPairs& pairs, const models::SearchOptions& search,
                    const metrics::BleuOptions& bleu);

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
  metrics::BleuOptions bleu;
  Evaluation result;
  double seconds = 0;
};

/// "exact match 99.50 %, token error 0.05 %", or BLEU and chrF of sentences; perplexity.
std::string summary(const Evaluation& result, bool sentences);

}  // namespace attune::pairs
