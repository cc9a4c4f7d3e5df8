// Numbers for tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

  std::vector<std::int32_t> encode(std::span<const std::string> tokens) const;

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

}  // namespace attune::text
