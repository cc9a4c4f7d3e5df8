// How a new run cuts text into tokens, and numbers them.
#pragma once

#include "model.hpp"
#include "train.hpp"

namespace attune::translate {

/// Tokenizers and vocabularies: from the files that are given for them, otherwise learnt from the
/// training text.
Codecs make_codecs(const TrainOptions& options);

}  // namespace attune::translate
