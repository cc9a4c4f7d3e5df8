// Tokenizers (lines to tokens) and vocabularies (tokens to ids). Subwords require a build with the
// sentencepiece library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Token ids of a sentence, without `<s>` and `</s>`.
using Sentence = std::vector<std::int32_t>;

/// The mapping between tokens and ids. Ids 0 to 3 are `<pad>`, `<s>`, `</s>` and `<unk>`.
class Vocabulary {
 public:
  static constexpr std::int32_t pad = 0, begin = 1, end = 2, unknown = 3;

  /// Assigns the ids 4, 5, ... to the given tokens. Throws on a duplicate.
  explicit Vocabulary(std::span<const std::string> tokens = {});

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// The id of a token, or `unknown`.
  std::int32_t id(std::string_view token) const;
  /// The token of an id. Throws if it is out of range.
  const std::string& token(Integer id) const&;
  const std::string& token(Integer id) const&& = delete;  // keep the Vocabulary in a variable

  /// All tokens except the four special ones, as passed to the constructor.
  std::span<const std::string> tokens() const&;
  std::span<const std::string> tokens() const&& = delete;

  /// True if all tokens have the same ids.
  bool operator==(const Vocabulary& other) const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

/// Number of occurrences of each token.
using TokenCounts = std::unordered_map<std::string, std::int64_t>;
void count_tokens(TokenCounts& counts, std::span<const std::string> tokens);

struct VocabularyOptions {
  std::int64_t minimum_count = 1;  ///< excludes rarer tokens
  std::int64_t maximum_size = 0;   ///< including the four special tokens; 0 means no limit
};

/// A vocabulary of the most frequent tokens, in descending order of frequency; ties are in
/// code-point order. Excludes tokens that equal a special token. Throws if maximum_size is 1 to 4.
Vocabulary make_vocabulary(const TokenCounts& counts, const VocabularyOptions& options = {});

/// Reads a file with one token per line. The first lines may be special tokens, in any order.
/// Throws an Error "FILE:LINE: reason" on an empty line, a TAB, or a duplicate.
Vocabulary read_vocabulary(const std::filesystem::path& path);
/// Writes a file for read_vocabulary: the tokens in the order of their ids, including the special
/// ones. Throws if a token is empty, begins with U+FEFF, contains a TAB, a line break or NUL, or is
/// not UTF-8.
void write_vocabulary(const std::filesystem::path& path, const Vocabulary& vocabulary);

// ---- Subwords

/// Whether attune was built with sentencepiece. Otherwise constructors of SentencePiece throw.
bool has_sentencepiece();

enum class PieceModel {
  bpe,      ///< byte pair encoding (Sennrich et al., 2016)
  unigram,  ///< unigram language model (Kudo, 2018)
};

struct SentencePieceOptions {
  PieceModel model = PieceModel::bpe;
  std::int64_t pieces = 8000;  ///< maximum, with `<unk>`, `<s>`, `</s>`; a small text has fewer
  /// Normalisation by sentencepiece: identity (none), nmt_nfkc, nfkc, nmt_nfkc_cf or nfkc_cf.
  std::string normalization = "identity";
};

/// A SentencePiece model, which splits lines into subword pieces (Kudo and Richardson, 2018).
/// Copies share the model. In pieces, "▁" (U+2581) represents a blank. A run of characters
/// that are in no piece becomes one piece.
class SentencePiece {
 public:
  /// Trains a model on lines. The same lines and options give the same model, byte for byte.
  /// sentencepiece skips lines with ▅ (U+2585). Throws on no text, on more than `pieces` - 3
  /// distinct characters, with ▁ for blanks, and as check_words does.
  static SentencePiece train(std::span<const std::string> lines,
                             const SentencePieceOptions& options = {});

  /// The smallest `pieces` with which train() accepts these lines, without normalization: one for
  /// each distinct character, with ▁ for blanks, and three special ones.
  static std::int64_t least_pieces(std::span<const std::string> lines);

  /// Throws an Error with the prefix `where` if a word has more than 32,000 characters. BPE
  /// training of sentencepiece 0.1.97 aborts the process on such a word.
  static void check_words(std::string_view line, std::string_view where);

  /// Constructs a model from the content of a `.model` file, or the result of bytes(). Throws on
  /// other content; messages begin with `where`.
  explicit SentencePiece(std::string_view bytes, std::string_view where = "sentencepiece");
  static SentencePiece load(const std::filesystem::path& path);

  /// Splits a line into pieces. Throws on invalid UTF-8.
  std::vector<std::string> encode(std::string_view line) const;
  /// Joins pieces to a line. For normalization "identity" it is the original line without leading,
  /// trailing and repeated spaces; ▁ becomes a space, `<unk>` becomes ⁇ (U+2047), and `<s>` and
  /// `</s>` may be lost.
  std::string decode(std::span<const std::string> pieces) const;

  /// The serialised model.
  std::string bytes() const;

 private:
  struct Model;
  std::shared_ptr<const Model> model_;
};

// ---- Tokenizers

/// Tokenizer kind: words separated by blanks.
struct Words {};
/// Tokenizer kind: code points, including blanks.
struct Characters {};

/// Base class of transformations of a line, before tokenisation (`encode`) and after detokenisation
/// (`decode`), such as truecasing or Unicode normalisation.
struct Rewriter {
  virtual ~Rewriter() = default;
  virtual std::string encode(std::string_view line) const = 0;
  virtual std::string decode(std::string_view line) const = 0;
  /// The state as JSON, for a checkpoint, see RewriterFromJson.
  virtual std::string json() const = 0;
};

/// Constructs a Rewriter from the result of its json(). Throws on other JSON.
using RewriterFromJson = std::function<std::shared_ptr<const Rewriter>(std::string_view json)>;

/// Splits lines into tokens and joins them again. Without a Rewriter, decode(encode(line)) is
/// `line` for Characters, `line` with single blanks for Words, and as described at
/// SentencePiece::decode for SentencePiece.
class Tokenizer {
 public:
  enum class Kind { words, characters, pieces };

  Tokenizer(Words = {}) {}
  Tokenizer(Characters) : kind_(Kind::characters) {}
  Tokenizer(SentencePiece model) : kind_(Kind::pieces), pieces_(std::move(model)) {}

  /// A copy that applies rewriter.encode before tokenising and rewriter.decode after joining.
  Tokenizer with(std::shared_ptr<const Rewriter> rewriter) const;

  std::vector<std::string> encode(std::string_view line) const;
  std::string decode(std::span<const std::string> tokens) const;

  Kind kind() const { return kind_; }
  /// The SentencePiece model, or nullptr for other kinds.
  const SentencePiece* pieces() const& { return pieces_ ? &*pieces_ : nullptr; }
  const SentencePiece* pieces() const&& = delete;
  /// The Rewriter, or nullptr.
  const Rewriter* rewriter() const& { return rewriter_.get(); }
  const Rewriter* rewriter() const&& = delete;

 private:
  Kind kind_ = Kind::words;
  std::optional<SentencePiece> pieces_;  // of Kind::pieces
  std::shared_ptr<const Rewriter> rewriter_;
};

/// Serialisation for the metadata of a checkpoint, including the SentencePiece model. Parsing
/// throws on invalid JSON, and if it has a Rewriter but `rewriter` is empty.
std::string to_json(const Tokenizer& tokenizer);
Tokenizer tokenizer_from_json(std::string_view json, const RewriterFromJson& rewriter = {});

/// Serialisation as a JSON array of tokens. Parsing throws on other JSON.
std::string to_json(const Vocabulary& vocabulary);
Vocabulary vocabulary_from_json(std::string_view json);

/// For each of the tokens of a line, the index of its word (separated by blanks, from 0), or -1 for
/// a token that contains only blanks or ▁. SentencePiece normalisation must not change the number of
/// words, and a Rewriter may change only the case; otherwise it throws.
std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens);

/// Tokenizer and vocabulary of one side of a model.
struct Codec {
  Tokenizer tokenizer;
  Vocabulary vocabulary;

  /// Token ids. A token that equals a special token, such as `</s>`, becomes `unknown`.
  Sentence encode(std::span<const std::string> tokens) const;
  Sentence encode(std::string_view line) const;

  /// The line of the tokens before `</s>`, without `<s>` and `<pad>`. Throws on an id out of range.
  std::string decode(std::span<const std::int32_t> sentence) const;
};

}  // namespace attune::text
