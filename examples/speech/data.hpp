// What is said: recordings of digits, lists of recordings, and the order in which a training draws
// them.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/random.hpp>

namespace attune::speech {

/// A waveform, and its tokens.
struct Utterance {
  std::vector<float> samples;
  text::Sentence tokens;
  std::vector<std::size_t> ends;  // samples after which each token ends, where that is known
};

/// A line of a list: a file, as a path from the list's directory, TAB its words.
struct Listed {
  std::filesystem::path file;
  std::string transcript;
  std::string where;  // "FILE:LINE", for errors
};

/// Throws an Error "FILE:LINE: what is wrong" for a line that has not two columns, or an empty one,
/// and for a list without lines.
std::vector<Listed> read_list(const std::filesystem::path& tsv);

/// The tokens of a transcript. A number that the vocabulary does not have is read digit by digit,
/// where it has their names: 72, seven two. What it does not have otherwise becomes <unk>.
text::Sentence tokens_of(const text::Codec& codec, const std::string& transcript);
/// The same of a line. Throws where there is none.
text::Sentence tokens_of(const text::Codec& codec, const Listed& listed);

/// The recording, at that rate. Throws an Error that begins with "FILE:LINE".
std::vector<float> samples_of(const Listed& listed, Index rate);

/// All of a list. Says on standard error how many recordings were converted from another rate, and
/// how many tokens are unknown.
std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate);

/// {digit}_{speaker}_{number}.wav, of several speakers.
class Digits {
 public:
  /// Those whose numbers are first to last, at that rate. Throws when there is none, or when a
  /// speaker lacks a digit.
  Digits(const std::filesystem::path& directory, Index first, Index last, Index rate);

  /// So many digits of one speaker, each one after the other.
  Utterance draw(Index digits, Random& random) const;
  /// Samples of the shortest recording.
  std::size_t shortest() const;
  /// Every recording by itself.
  std::vector<Utterance> single() const;

  /// "zero" to "nine"
  static text::Codec codec();

 private:
  // Of each speaker and digit.
  std::vector<std::array<std::vector<std::vector<float>>, 10>> speakers_;
};

/// So many strings of each length, of the same lengths and digits for a seed.
std::vector<Utterance> strings(const Digits& digits, Index shortest, Index longest, Index count,
                               std::uint64_t seed);

/// The recordings that a model is chosen by: 5 to 9. Those from 10 on are trained on.
Digits validation_digits(const std::filesystem::path& directory, Index rate);
Digits training_digits(const std::filesystem::path& directory, Index rate);

/// Utterances, in the order in which a training draws them. It depends on the seed alone, so that a
/// run can go on from any step.
class TrainingSet {
 public:
  virtual ~TrainingSet() = default;

  virtual std::string description() const = 0;
  /// Another one, almost surely, when what is said, or how long it takes, has changed.
  virtual std::string fingerprint() const = 0;
  /// How many utterances a step has. To be called before they are drawn.
  virtual Index begin_step(Index step) = 0;
  /// Number i of this step, by any thread. `random` is its own.
  virtual Utterance draw(Index i, Random& random) const = 0;
  /// Every recording, for what features are scaled by.
  virtual void each(const std::function<void(const std::vector<float>& samples)>& visit) const = 0;
};

struct SetOptions {
  Index rate = 8000;       // samples per second
  Index batch = 32;        // utterances
  std::uint64_t seed = 1;  // of the order of a list
  /// How many annotations a recording of so many seconds has at least. CTC needs one for each
  /// token, and one between two that are equal; without it nothing is checked.
  std::function<Index(double seconds)> annotations = {};
};

/// Strings of 1 to `longest` digits. Throws where frames are too coarse for them.
std::unique_ptr<TrainingSet> digit_strings(const std::filesystem::path& directory, Index longest,
                                           const SetOptions& options);
/// The recordings of a list, each once in an epoch, in batches of similar lengths. They are read
/// when they are drawn, so that they may be more than memory holds. Throws for a file that is no
/// audio, and for one that is too short for its tokens.
std::unique_ptr<TrainingSet> listed_recordings(const std::filesystem::path& list,
                                               const text::Codec& codec, const SetOptions& options);

/// All tokens of the transcripts of a list.
text::Vocabulary vocabulary_of(const std::filesystem::path& list, const text::Tokenizer& tokenizer);

}  // namespace attune::speech
