// One training run: the task, the models that are compared, and how well they translate sentences
// of every length.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/models/seq2seq.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/tensor/random.hpp>

namespace attune::long_sentences {

/// A language of `words` words, each of one of two classes, and its translation: word w of the
/// source becomes form k of the word that the dictionary has for w, where k is the class of the
/// word before (0 for the first). Dictionary and classes are drawn from the seed. No word
/// occurs twice in a sentence: a sentence of 60 out of 80 words holds 334 bits, and each word tells
/// the place of the word after it.
class Task {
 public:
  Task(Index words, std::uint64_t seed);

  /// With the four special tokens; each word of the target has two forms.
  Index source_vocabulary() const { return 4 + words(); }
  Index target_vocabulary() const { return 4 + 2 * words(); }

  /// Throws unless the length is from 1 to the number of words.
  text::Sentence draw(Index length, Random& random) const;
  text::Sentence translate(const text::Sentence& source) const;

  /// `count` sentences of one length, and what becomes of them.
  std::vector<text::Pair> pairs(Index length, Index count, Random& random) const;

 private:
  Index words() const { return static_cast<Index>(dictionary_.size()); }

  std::vector<std::int32_t> dictionary_;  // a permutation of 0 .. words - 1
  std::vector<std::int32_t> classes_;     // 0 or 1, of each word of the source
};

/// A published model and what is changed of it, in the names of models::seq2seq_fields().
struct Variant {
  std::string name;
  std::string preset;
  std::vector<std::pair<std::string, std::string>> changes = {};
};

/// All of them, those without attention first.
std::span<const Variant> variants();

/// Throws on a name that is none of them.
const Variant& variant(std::string_view name);

/// The general model wired as that of a paper.
models::Seq2SeqOptions published(std::string_view preset);

/// One layer of `hidden` units in every model, half as many in word vectors and in the scores'
/// hidden layer; a multiple of 8, for the heads. A source has `longest` words at most.
models::Seq2SeqOptions options_of(const Variant& variant, Index hidden, Index longest);

/// Lengths of the test sentences; each set has no other.
inline constexpr std::array<Index, 7> lengths = {5, 10, 20, 30, 40, 50, 60};

/// What a model is trained on; all are tested on all lengths.
struct Setting {
  std::string name;
  Index longest;  // sentence in training
};
inline const std::array<Setting, 2> settings = {{{"a", 20}, {"b", lengths.back()}}};

/// The same for every variant.
struct Budget {
  Index steps = 1500;  // batches, each of sentences of one length
  Index hidden = 64;
  Index batch = 64;    // sentences
  Index words = 80;    // of the language
  Index tested = 50;   // sentences of each length
  double rate = 6e-3;  // of Adam
  double clip = 1;
};

struct Result {
  std::array<double, lengths.size()> accuracy = {};  // share of target positions, 0 to 1
  double loss = 0;                                   // of the last batch
  double seconds = 0;                                // of processor time
  Index parameters = 0;
};

/// Trains and tests. What comes out depends on the arguments alone (but for the seconds). Lengths
/// in training are 1 + ⌊longest · u²⌋ with u uniform in [0, 1): a third of the batches are shorter
/// than 7 of 60 words, which a model without attention can learn, and cheap; and there are long
/// ones from the first step on, which only attention can.
Result run(const Setting& setting, const Variant& variant, std::uint64_t seed,
           const Budget& budget);

}  // namespace attune::long_sentences
