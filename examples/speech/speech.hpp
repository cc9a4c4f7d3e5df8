// The parts of `speech`, from recordings to commands; audio.hpp has the sound.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>

#include "audio.hpp"
#include "support/error_counts.hpp"
#include "support/frames.hpp"
#include "support/run.hpp"

namespace attune {
class Commands;
}

namespace attune::speech {

enum class Tokens { words, characters };

/// Options of a training, with their defaults.
struct TrainOptions : TrainingOptions {
  TrainOptions()
      : TrainingOptions{
            .out = "speech-model", .batch = 32, .validate_every = 200, .average = 0.998} {}
  std::string digits;             // directory of the Free Spoken Digit Dataset,
  Index longest = 7;              // joined to strings of so many digits at most;
  std::string list, valid_list;   // or lists of recordings
  Tokens tokens = Tokens::words;  // of their transcripts
  Index steps = 2000;
  double speed = 0.15;                   // changes the speed of recordings by up to this share
  double silence = 0.1;                  // most seconds of it before and after a recording
  double noise = 20;                     // at least this many decibels below the recording
  Index time_masks = 2, band_masks = 2;  // masks over time and over mel bands (SpecAugment)
  std::uint64_t seed = 1;
  LogMelOptions features;
  // Of the network:
  Index hidden = 128;  // of each direction of the listener, and of the decoder
  Index layers = 3;
  Index joined = 2;  // of the layers, the highest that join two steps into one
  nn::Cell cell = nn::Cell::lstm;
  Index embedding = 32;
  Index readout = 64;
  double dropout = 0.2;
  bool attends = true;  // or the decoder starts from the listener's last state alone
  nn::ScoreOptions score = {.kind = "location_aware", .attention = 64};
  nn::AttentionOptions attention = {};
  double ctc = 0.3;  // λ of Watanabe et al. (2017), in the loss and in the search; 0: none

  /// Frames that one annotation stands for.
  Index frames_joined() const { return Index{1} << joined; }
};

/// Throws where options contradict each other.
void check(const TrainOptions& options);

/// How to search.
struct HearOptions {
  Index beam = 4;
  bool ctc = true;  // whether CTC takes part, where the model has it
};

Fields<TrainOptions> training_fields();
Fields<TrainOptions> network_fields();
Fields<TrainOptions> feature_fields();
const Fields<TrainOptions>& all_fields();

// Data

struct Utterance {
  std::vector<float> samples;
  text::Sentence tokens;
  std::vector<std::size_t> ends = {};  // samples after which each token ends, where that is known
  bool converted = false;              // from another rate
};

/// A line of a list: a file, as a path from the list's directory, TAB its words.
struct Listed {
  std::filesystem::path file;
  std::string transcript;
  std::string where;  // "FILE:LINE", for errors
};

/// Throws an Error "FILE:LINE: what is wrong" unless each line has two columns with text, and for a
/// list without lines.
std::vector<Listed> read_list(const std::filesystem::path& tsv);

/// The tokens of a transcript. An unknown number is read digit by digit, where the vocabulary has
/// their names: 72, seven two. Other unknown tokens become <unk>.
text::Sentence tokens_of(const text::Codec& codec, const std::string& transcript);
/// The recording at that rate and its tokens. Throws an Error that begins with "FILE:LINE".
Utterance read_utterance(const Listed& listed, const text::Codec& codec, Index rate);

/// All utterances of a list. Warns of recordings of another rate, and of unknown tokens.
std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate);

/// Tokens and samples.
Input input(const std::string& from, std::span<const Utterance> utterances);

/// All tokens of the transcripts of a list.
text::Vocabulary vocabulary_of(const std::filesystem::path& list, const text::Tokenizer& tokenizer);

/// {digit}_{speaker}_{number}.wav, of several speakers.
class Digits {
 public:
  /// Numbers first to last, at that rate. Throws when there is none, or a speaker lacks a digit.
  Digits(const std::filesystem::path& directory, Index first, Index last, Index rate);
  /// 5 to 9, by which a model is chosen. Those from 10 on are trained on.
  static Digits for_validation(const std::filesystem::path& directory, Index rate) {
    return {directory, 5, 9, rate};
  }

  /// So many digits of one speaker, one after the other.
  Utterance draw(Index digits, Random& random) const;
  /// `count` strings of each length; the seed decides their digits.
  std::vector<Utterance> strings(Index shortest, Index longest, Index count,
                                 std::uint64_t seed) const;
  /// Every recording by itself.
  std::vector<Utterance> single() const;

  /// "zero" to "nine"
  static text::Codec codec();

 private:
  // Of each speaker and digit.
  std::map<std::string, std::array<std::vector<std::vector<float>>, 10>> speakers_;
};

/// The utterances of a training, in the order in which it draws them.
struct TrainingSet {
  std::string description = {};
  Input input = {};  // transcripts and samples of all recordings
  /// Of an epoch, which depends on the seed alone: numbers, each of which draws an utterance.
  std::function<Epochs::Batches(Index epoch)> batches = {};
  /// Any thread may call it, with random numbers of its own.
  std::function<Utterance(std::uint32_t number, Random& random)> draw = {};
  frames::Scaling scaling = {};  // of the features of all recordings
};

/// Strings of 1 to `longest` digits of `digits`. Throws where frames are too coarse for CTC.
TrainingSet digit_strings(const TrainOptions& options);
/// The recordings of `list`, each once in an epoch, in batches of similar lengths. Reads each when it
/// is drawn: they need not fit in memory. Throws for a file that is no audio, and for one that is too
/// short for its tokens under CTC.
TrainingSet listed_recordings(const TrainOptions& options, const text::Codec& codec);

// Model

using Decoder = std::variant<models::BahdanauDecoder, models::LastStateDecoder>;

/// A batch of features, and the tokens of their transcripts.
struct Batch {
  nn::Sequence frames;
  std::vector<text::Sentence> words;
};

/// The network, and what its use needs: options, features, codec, scaling.
class Model {
 public:
  Model(const TrainOptions& options, text::Codec codec, frames::Scaling scaling,
        std::unique_ptr<nn::Parameters> parameters);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  /// Features of a waveform, scaled: (T, bands).
  Tensor hear(std::span<const float> waveform) const;
  /// (1 - λ) · cross-entropy of the words + λ · CTC, each per word.
  Var loss(const Batch& batch) const;
  /// The best tokens of each waveform, at most one for each annotation, with attention weights.
  std::vector<models::Hypothesis> recognise(std::span<const std::vector<float>> waveforms,
                                            const HearOptions& how = {}) const;
  /// The utterance's tokens as a hypothesis (forced decoding).
  models::Hypothesis force(const Utterance& utterance) const;

  /// Seconds from the beginning of a recording to that of an annotation's frames.
  double time(Index annotation) const;
  /// Seconds that so many samples last.
  double seconds(std::size_t samples) const { return samples / static_cast<double>(rate()); }
  Index rate() const { return options.features.rate; }

  TrainOptions options;
  LogMel features;
  text::Codec codec;
  frames::Scaling scaling;
  std::unique_ptr<nn::Parameters> parameters;
  Metadata metadata = {};  // of the checkpoint

 private:
  std::vector<models::Hypothesis> recognise_batch(const nn::Sequence& frames,
                                                  const HearOptions& how) const;

  models::Listener listener_;
  Decoder decoder_;
  std::optional<nn::Linear> ctc_;
};

/// Errors, by the number of tokens that were said.
CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options);

/// Cuts the places 0 to S of weights (U, S) into a stretch [begin, end) for each of the first
/// `tokens` rows, in order and without gaps: first with the largest sum of weights inside the tokens'
/// own stretches, then between the centres of these weights. A decoder may look at the beginnings of
/// words or at their ends: the first word, which begins at 0, and the last one, which ends at S, show
/// where to cut between two centres. Throws when there are fewer places than tokens.
std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens);

constexpr const char* default_model = "speech-model/best.safetensors";

/// Adds recognise, evaluate and align.
void add_uses(Commands& commands);

}  // namespace attune::speech
