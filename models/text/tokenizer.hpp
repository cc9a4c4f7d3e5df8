// Lines as tokens, and back.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <attune/models/text/sentencepiece.hpp>
#include <attune/models/text/truecaser.hpp>

namespace attune::text {

/// The words between blanks.
struct Words {};
/// Code points, blanks too.
struct Characters {};
/// Code points after canonical decomposition: accents and the letters of Hangul syllables.
struct DecomposedCharacters {};

/// How a line becomes tokens. decode(encode(line)) is the line: exactly with Characters, with
/// DecomposedCharacters in composed form (NFC), with Words but for its blanks, and with a
/// SentencePiece as it says; but for the case of words, with a Truecaser.
class Tokenizer {
 public:
  Tokenizer(Words = {}) : kind_(Words{}) {}
  Tokenizer(Characters) : kind_(Characters{}) {}
  Tokenizer(DecomposedCharacters) : kind_(DecomposedCharacters{}) {}
  Tokenizer(SentencePiece model) : kind_(std::move(model)) {}

  /// The same for lines that a Truecaser encodes first, and decodes at last.
  Tokenizer with(Truecaser truecaser) const;

  std::vector<std::string> encode(std::string_view line) const;
  std::string decode(std::span<const std::string> tokens) const;

  /// Its SentencePiece, where it is one.
  const SentencePiece* pieces() const { return std::get_if<SentencePiece>(&kind_); }

 private:
  friend std::string to_json(const Tokenizer& tokenizer);
  std::variant<Words, Characters, DecomposedCharacters, SentencePiece> kind_;
  std::optional<Truecaser> truecaser_;
};

/// For a checkpoint's metadata, with all of a model of sentencepiece in it, and back. Throws on
/// anything else.
std::string to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(std::string_view json);

}  // namespace attune::text
