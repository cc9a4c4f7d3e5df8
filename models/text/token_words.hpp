// Which word a token is a piece of.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// For each token of a line, as a Tokenizer makes them, the number of its word among those between
/// blanks, from 0, or -1 for a token without letters, such as a blank alone. A SentencePiece may
/// have changed letters, as by NFKC, but not the number of words, and a Rewriter
/// their case: otherwise this throws.
std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens);

}  // namespace attune::text
