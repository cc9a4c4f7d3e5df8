// Sentences with a translation that a model's own is held against.
#pragma once

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/text/corpus.hpp>

#include "model.hpp"

namespace attune::translate {

struct ReferenceText {
  std::vector<std::string> lines;  // of the source
  std::vector<text::Sentence> sources;
  /// Of each source, as they are written; the first is that of `pairs`.
  std::vector<metrics::References> references;
  std::vector<text::Pair> pairs;  // those that have words on both sides
};

/// From two files, or without a second one from a TSV with such columns. Throws an Error
/// "FILE:LINE: ..." for a source of more than `longest` tokens, for a target that is too long and
/// for a reference without words, and one when no pair has words.
ReferenceText reference_text(const std::string& source, const std::string& target,
                             text::Columns columns, const Codecs& codecs, Index longest);

/// Throws for such a text what can be said without a model.
void check_reference_text(const std::string& source, const std::string& target,
                          text::Columns columns);

/// Adds another translation of each source, a line each; an empty line is none.
void add_references(ReferenceText& text, const std::string& file);

/// How many words each source has.
std::vector<std::int64_t> source_lengths(const ReferenceText& text);

}  // namespace attune::translate
