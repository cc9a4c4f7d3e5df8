// Lines as numbers, and back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/vocabulary.hpp>

namespace attune::text {

/// What one side of a model reads or writes.
struct Codec {
  Tokenizer tokenizer;
  Vocabulary vocabulary;

  /// The numbers of tokens. One that is spelt like a special token is unknown: no text can end or
  /// pad a sentence.
  Sentence encode(std::span<const std::string> tokens) const;
  Sentence encode(std::string_view line) const { return encode(tokenizer.encode(line)); }

  /// The line up to `</s>`, without `<s>` and padding. Throws for a number that is not there.
  std::string decode(std::span<const std::int32_t> sentence) const;
};

}  // namespace attune::text
