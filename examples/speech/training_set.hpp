// What a model is trained on: strings of digits, or a list of recordings.
#pragma once

#include <functional>
#include <memory>

#include "digits.hpp"
#include "list.hpp"

namespace attune::speech {

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
