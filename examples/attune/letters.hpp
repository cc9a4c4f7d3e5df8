// Letters by Unicode's rules: case, normal forms, and words in the case that they mostly have.
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

/// Texts that differ in case alone become the same (Unicode's full case folding: "ß" is "ss").
std::string folded_case(std::string_view text);

/// Canonically decomposed (NFD) and composed (NFC): in the former an accent, or a letter of a
/// Hangul syllable, is a code point of its own.
std::string decomposed(std::string_view text);
std::string composed(std::string_view text);

/// With escapes such as \u200b for code points that are not seen: separators but the blank, format
/// and control characters, and a mark at the beginning.
std::string visible(std::string_view text);

/// Code points after canonical decomposition: accents and the letters of Hangul syllables. Lines
/// come back composed.
Tokenizer decomposed_characters();

/// Gives words the case that they mostly have within sentences (Lita et al., 2003), as Moses'
/// truecaser does (Koehn et al., 2007). Changed are the first word of a sentence, words in a case
/// that they were never seen in, and all words of a line in capitals; a word that was never seen
/// becomes lower case there, and stays as it is elsewhere. A word is what stands between blanks,
/// without the marks around it; a sentence ends behind . ? or !.
class Truecaser : public Rewriter {
 public:
  /// Of a word in several cases the most frequent one stands first. `capitals`: sentences begin
  /// with one.
  Truecaser(std::vector<std::string> words, bool capitals);

  std::string encode(std::string_view line) const override;
  /// The line with a capital at the beginning of each sentence, where these have one.
  std::string decode(std::string_view line) const override;
  std::string json() const override;

  std::span<const std::string> words() const { return words_; }
  bool capitals() const { return capitals_; }

 private:
  std::vector<std::string> words_;
  bool capitals_;
  std::unordered_map<std::string, std::string> best_;  // by folded_case
  std::unordered_set<std::string> known_;
};

/// Counts the cases of words, from which a Truecaser is learnt.
class CaseCounts {
 public:
  /// Counts the words of a line, but for the first ones of sentences. A line in capitals tells
  /// nothing. Throws when it is not UTF-8.
  void add(std::string_view line);
  /// Its sentences begin with a capital when most lines did.
  Truecaser truecaser() const;

 private:
  std::unordered_map<std::string, std::int64_t> counts_;
  std::int64_t capital_ = 0, lower_ = 0;  // lines that begin so
};

/// Reads the Rewriters that there are here: for models::load and text::tokenizer_from_json.
std::shared_ptr<const Rewriter> read_rewriter(std::string_view json);

}  // namespace attune::text
