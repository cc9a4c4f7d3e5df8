// Sentences with a translation that a model's own is held against.
#pragma once

#include <attune/models/metrics/bleu.hpp>

#include "model.hpp"

namespace attune::translate {

struct ReferenceText {
  std::vector<std::string> lines;  // of the source
  std::vector<text::Sentence> sources;
  std::vector<metrics::References> references;  // of each source one, as it is written
  std::vector<text::Pair> pairs;                // those that have words on both sides
};

/// From two files, or without a second one from a TSV. Throws an Error "FILE:LINE: ..." for a line
/// that is too long and for a reference without words, and one when no pair has words.
ReferenceText reference_text(const std::string& source, const std::string& target,
                             const Codecs& codecs);

}  // namespace attune::translate
