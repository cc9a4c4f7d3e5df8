// What models write, and how well.
#pragma once

#include <attune/models/search.hpp>
#include <attune/models/translate.hpp>

#include "model.hpp"
#include "pairs.hpp"
#include "support/error_counts.hpp"

namespace attune::transduce {

/// How to search.
struct WriteOptions {
  Index beam = 5;
  Index best = 1;  // hypotheses of each source
};

using Models = std::span<const Model>;

/// The best hypotheses for each source; several models write together. Throws Interrupted.
std::vector<models::Translation> write(Models models, std::span<const text::Sentence> sources,
                                       const WriteOptions& options);

/// How often a token was written for another: by what was expected and written.
using Confusions = std::map<metrics::TokenPair, Index>;

/// What was written for a row.
struct Written {
  std::string target;
  double probability;
  bool right;
};

struct Evaluation {
  std::vector<Written> written;  // in the order of the rows
  CountsByLength counts;
  Confusions confusions;
};

Evaluation evaluate(Models models, std::span<const Row> rows, Index beam);

/// The share of rows that were written with any mistake.
inline double word_error(const Counts& counts) { return 1 - counts.share_right(); }

/// The most frequent confusions, as expected, written and how often; "∅" is nothing.
std::vector<std::vector<std::string>> most_frequent(const Confusions& confusions,
                                                    const text::Vocabulary& target,
                                                    std::size_t most);

}  // namespace attune::transduce
