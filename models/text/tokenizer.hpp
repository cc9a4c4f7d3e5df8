// Lines as tokens, tokens as numbers, and back. Subwords are those of the sentencepiece library,
// where attune is built with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Numbers of words, without begin and end.
using Sentence = std::vector<std::int32_t>;

/// Tokens by number. The first four are `<pad>`, `<s>`, `</s>` and `<unk>`.
class Vocabulary {
 public:
  static constexpr std::int32_t pad = 0, begin = 1, end = 2, unknown = 3;

  /// The given tokens, numbered from 4 on in their order. Throws when one occurs twice.
  explicit Vocabulary(std::span<const std::string> tokens = {});

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// `unknown` for a token that it does not have.
  std::int32_t id(std::string_view token) const;
  /// Throws when there is no such number.
  const std::string& token(std::int32_t id) const;

  /// Without the four special ones: what the constructor takes.
  std::span<const std::string> tokens() const { return std::span(tokens_).subspan(4); }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

/// Occurrences of each token.
using TokenCounts = std::unordered_map<std::string, std::int64_t>;
void count_tokens(TokenCounts& counts, std::span<const std::string> tokens);

struct VocabularyOptions {
  std::int64_t minimum_count = 1;  ///< excludes rarer tokens
  std::int64_t maximum_size = 0;   ///< with the four special tokens; 0: any
};

/// The most frequent tokens first, of equally frequent ones the first by code points. Those that
/// are spelled like special tokens are excluded. Throws for a maximum without room for a token.
Vocabulary make_vocabulary(const TokenCounts& counts, const VocabularyOptions& options = {});

/// From a file with a token on each line. Special tokens may stand at its top, in any order. Throws
/// an Error "FILE:LINE: what is wrong" for an empty line, a TAB, and a token that occurs twice.
Vocabulary read_vocabulary(const std::filesystem::path& path);
/// Writes a file for read_vocabulary(), each token in the line of its number, from 0. Throws for a
/// token with a TAB or a line break in it.
void write_vocabulary(const std::filesystem::path& path, const Vocabulary& vocabulary);

// ---- Subwords

/// Whether this build has the library. Without it, every constructor of SentencePiece throws an
/// Error that says so.
bool has_sentencepiece();

enum class PieceModel {
  bpe,      ///< byte pair encoding (Sennrich et al., 2016)
  unigram,  ///< unigram language model (Kudo, 2018)
};

struct SentencePieceOptions {
  PieceModel model = PieceModel::bpe;
  std::int64_t pieces = 8000;  ///< at most: a small text has fewer
  /// "identity" leaves the text as it is; sentencepiece also knows nmt_nfkc, nfkc, nmt_nfkc_cf and
  /// nfkc_cf.
  std::string normalization = "identity";
};

/// A model that cuts lines into pieces (Kudo and Richardson, 2018); copies share it. The pieces are
/// strings, in which "▁" (U+2581) stands for a blank; a Vocabulary numbers them. A
/// character without a piece stands for itself.
class SentencePiece {
 public:
  /// Learns from lines; the same lines and options give the same model, byte for byte. Throws
  /// without text, when the text has more characters than `pieces`, and as check_words does.
  static SentencePiece train(std::span<const std::string> lines,
                             const SentencePieceOptions& options = {});

  /// Throws an Error that begins with `where` for a word of more than 32,000 letters, which BPE of
  /// sentencepiece 0.1.97 cannot learn from: it would end the process.
  static void check_words(std::string_view line, std::string_view where);

  /// From what bytes() returned, or a `.model` file. Throws on anything else; errors begin with
  /// `where`.
  explicit SentencePiece(std::string_view bytes, std::string_view where = "sentencepiece");
  static SentencePiece load(const std::filesystem::path& path);

  /// Throws when the line is not UTF-8.
  std::vector<std::string> encode(std::string_view line) const;
  /// The line: with "identity" as it was, but for blanks at its ends, repeated ones, and ▁, which
  /// becomes a blank. `<unk>` becomes ⁇ (U+2047).
  std::string decode(std::span<const std::string> pieces) const;

  std::string bytes() const;

 private:
  struct Model;
  std::shared_ptr<const Model> model_;
};

// ---- Lines

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
