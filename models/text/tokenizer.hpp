// Lines as tokens, tokens as numbers, and back.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <attune/models/text/sentencepiece.hpp>
#include <attune/models/text/vocabulary.hpp>

namespace attune::text {

/// The words between blanks.
struct Words {};
/// Code points, blanks too.
struct Characters {};

/// Rewrites a line before it is tokenised and after it is detokenised: a truecaser, say, or a
/// normal form of Unicode.
struct Rewriter {
  virtual ~Rewriter() = default;
  virtual std::string encode(std::string_view line) const = 0;
  virtual std::string decode(std::string_view line) const = 0;
  /// Its state, for a checkpoint; a RewriterFromJson reads it.
  virtual std::string json() const = 0;
};

/// Makes a Rewriter of its json(). Throws on anything else.
using RewriterFromJson = std::function<std::shared_ptr<const Rewriter>(std::string_view json)>;

/// How a line becomes tokens. decode(encode(line)) is the line: exactly with Characters, with Words
/// but for its blanks, and with a SentencePiece as it says; but for what a Rewriter changes.
class Tokenizer {
 public:
  Tokenizer(Words = {}) : kind_(Words{}) {}
  Tokenizer(Characters) : kind_(Characters{}) {}
  Tokenizer(SentencePiece model) : kind_(std::move(model)) {}

  /// The same for lines that a Rewriter encodes first, and decodes at last.
  Tokenizer with(std::shared_ptr<const Rewriter> rewriter) const;

  std::vector<std::string> encode(std::string_view line) const;
  std::string decode(std::span<const std::string> tokens) const;

  /// Its SentencePiece, where it is one.
  const SentencePiece* pieces() const { return std::get_if<SentencePiece>(&kind_); }

 private:
  friend std::string to_json(const Tokenizer& tokenizer);
  std::variant<Words, Characters, SentencePiece> kind_;
  std::shared_ptr<const Rewriter> rewriter_;
};

/// For a checkpoint's metadata, with all of a model of sentencepiece in it, and back. Throws on
/// anything else, and on a Rewriter where there is nothing that makes one.
std::string to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(std::string_view json, const RewriterFromJson& rewriter = {});

/// As a JSON array of tokens, for a checkpoint's metadata, and back. Throws on anything else.
std::string to_json(const Vocabulary& vocabulary);
Vocabulary vocabulary_from_json(std::string_view json);

/// For each token of a line, as a Tokenizer makes them, the number of its word among those between
/// blanks, from 0, or -1 for a token without letters, such as a blank alone. A SentencePiece may
/// have changed letters, as by NFKC, but not the number of words, and a Rewriter
/// their case: otherwise this throws.
std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens);

/// Tokenizer and vocabulary of one side of a model.
struct Codec {
  Tokenizer tokenizer;
  Vocabulary vocabulary;

  /// The numbers of tokens. A token spelled like a special one is unknown: no text can end or
  /// pad a sentence.
  Sentence encode(std::span<const std::string> tokens) const;
  Sentence encode(std::string_view line) const { return encode(tokenizer.encode(line)); }

  /// The line up to `</s>`, without `<s>` and padding. Throws for a number that is not there.
  std::string decode(std::span<const std::int32_t> sentence) const;
};

}  // namespace attune::text
