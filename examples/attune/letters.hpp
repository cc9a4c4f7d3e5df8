// Unicode text: case folding, normal forms, truecasing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <attune/models/text/tokenizer.hpp>

namespace attune::text {

/// Unicode's full case folding: texts that differ only in case become equal ("ß" becomes "ss").
std::string folded_case(std::string_view text);

/// Canonical decomposition (NFD), with separate code points for accents and the letters of Hangul
/// syllables, and composition (NFC).
std::string decomposed(std::string_view text);
std::string composed(std::string_view text);

/// Escapes invisible code points, as \u200b: separators other than the blank, format and control
/// characters, and a combining mark at the beginning.
std::string escaped(std::string_view text);

/// Tokenises into code points after canonical decomposition. Decoded lines are composed (NFC).
Tokenizer decomposed_characters();
/// True if the tokenizer decomposes lines, as that of decomposed_characters.
bool decomposes(const Tokenizer& tokenizer);

/// Truecasing (Lita et al., 2003), as in Moses (Koehn et al., 2007): gives a word its most frequent
/// case within sentences. It changes the first word of a sentence, words in a case not seen in
/// training, and all words of a line in capitals. Unknown words become lower case in a line in
/// capitals, and are unchanged elsewhere. Words are separated by blanks and exclude punctuation
/// around them; a sentence ends after . ? or !.
class Truecaser : public Rewriter {
 public:
  /// `words`: known words; of those that differ only in case, the most frequent comes first.
  /// `capitals`: sentences begin with a capital.
  Truecaser(std::vector<std::string> words, bool capitals);

  std::string encode(std::string_view line) const override;
  /// Capitalises the first word of each sentence if sentences begin with a capital.
  std::string decode(std::string_view line) const override;
  std::string json() const override;

  std::span<const std::string> words() const { return words_; }

 private:
  std::vector<std::string> words_;
  bool capitals_;
  std::unordered_map<std::string, std::string> best_;  // by folded_case
  std::unordered_set<std::string> known_;
};

/// Learns a Truecaser by counting the cases of words.
class CaseCounts {
 public:
  /// Counts the words of a line, except the first ones of sentences. Ignores lines in capitals.
  /// Throws if the line is not UTF-8.
  void add(std::string_view line);
  /// Its sentences begin with a capital if most lines did.
  Truecaser truecaser() const;

 private:
  std::unordered_map<std::string, std::int64_t> counts_;
  std::int64_t capital_ = 0, lower_ = 0;  // lines that begin so
};

/// Reads a Rewriter of this file from JSON, for models::load and text::tokenizer_from_json.
std::shared_ptr<const Rewriter> read_rewriter(std::string_view json);

}  // namespace attune::text
