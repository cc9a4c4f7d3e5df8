// The text that a model is validated on.
#pragma once

#include "model.hpp"

namespace attune::translate {

/// Sentences to validate on: all that have words.
struct Validation {
  std::vector<text::Pair> pairs;
  std::vector<std::string> references;  // as they are written
};

/// From two files, or without a second one from a TSV.
Validation validation_text(const std::string& source, const std::string& target,
                           const Codecs& codecs);

}  // namespace attune::translate
