// Lines as tokens, and back.
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

namespace attune::text {

/// The words between blanks.
struct Words {};
/// Code points, blanks too.
struct Characters {};

/// What is done to a line before it is cut into tokens, and to what is put together from them: a
/// truecaser, say, or a normal form of Unicode.
struct Rewriter {
  virtual ~Rewriter() = default;
  virtual std::string encode(std::string_view line) const = 0;
  virtual std::string decode(std::string_view line) const = 0;
  /// Whatever makes it again, for a checkpoint.
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

}  // namespace attune::text
