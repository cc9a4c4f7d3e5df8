// The network that listens, what its numbers mean, and what it hears.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include <attune/models/bahdanau.hpp>
#include <attune/models/encoder_decoder.hpp>
#include <attune/models/listener.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/score.hpp>

#include "audio.hpp"
#include "data.hpp"
#include "support/error_counts.hpp"
#include "support/frames.hpp"

namespace attune::speech {

/// Whether the decoder attends, or starts from the listener's last state alone.
enum class Attends { no, yes };

struct RecogniserOptions {
  Index bands = 40;
  Index hidden = 128;  // of each direction of the listener, and of the decoder
  Index layers = 3;
  Index joined = 2;  // of the layers, the highest that join two steps into one
  nn::Cell cell = nn::Cell::lstm;
  Index embedding = 32;
  Index readout = 64;
  double dropout = 0.2;
  Attends attends = Attends::yes;
  nn::ScoreOptions score = {.kind = "location_aware", .attention = 64};
  nn::AttentionOptions attention = {};
  double ctc = 0.3;  // λ of Watanabe et al. (2017), in the loss and in the search; 0: none
};

/// All of it as text, but for `bands`.
std::span<const models::OptionField<RecogniserOptions>> recogniser_fields();

/// Frames that one annotation stands for.
inline Index joined(const RecogniserOptions& options) { return Index{1} << options.joined; }

/// Throws an Error that names the option for numbers that contradict each other.
void check(const RecogniserOptions& options);

/// Features side by side, and what is said in them.
struct Batch {
  nn::Sequence frames;
  std::vector<text::Sentence> words;
};

class Recogniser {
 public:
  Recogniser(const nn::Scope& scope, const RecogniserOptions& options, Index vocabulary);

  /// (1 - λ) · cross-entropy of the words + λ · CTC, each per word.
  Var loss(const Batch& batch) const;

  /// The best words of each utterance, with where the decoder attended to; by attention and CTC, or
  /// by attention alone.
  std::vector<models::Hypothesis> recognise(const nn::Sequence& frames,
                                            const models::SearchOptions& search, bool ctc) const;
  /// Given words, as if they had been found.
  std::vector<models::Hypothesis> force(const Batch& batch) const;

  const RecogniserOptions& options() const { return options_; }

 private:
  RecogniserOptions options_;
  models::Listener listener_;
  std::variant<models::BahdanauDecoder, models::LastStateDecoder> decoder_;
  std::optional<nn::Linear> ctc_;
};

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune speech 3";

class Model {
 public:
  Model(const RecogniserOptions& options, const LogMelOptions& features, text::Codec codec,
        frames::Scaling scaling, std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  /// Features of a waveform, scaled: (T, bands).
  Tensor hear(std::span<const float> waveform) const;
  /// Seconds from the beginning of a recording to that of an annotation's frames.
  double time(Index annotation) const;

  const Recogniser& recogniser() const { return *recogniser_; }
  const LogMel& features() const { return *features_; }
  const frames::Scaling& scaling() const { return scaling_; }
  const text::Codec& codec() const { return codec_; }
  Index rate() const { return features_->options().rate; }
  nn::Parameters& parameters() { return *parameters_; }
  const nn::Parameters& parameters() const { return *parameters_; }
  /// All metadata of the checkpoint it was loaded from.
  const Metadata& metadata() const { return metadata_; }

 private:
  Model(const RecogniserOptions& options, const LogMelOptions& features, text::Codec codec,
        frames::Scaling scaling, std::unique_ptr<nn::Parameters> parameters);

  RecogniserOptions options_;
  std::unique_ptr<LogMel> features_;
  text::Codec codec_;
  frames::Scaling scaling_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<Recogniser> recogniser_;
  Metadata metadata_;
};

/// How to search.
struct HearOptions {
  Index beam = 4;
  bool ctc = true;  // whether CTC takes part, where the model has it
};

/// The best tokens of each waveform, in batches of similar lengths: as many at most as there are
/// annotations.
std::vector<models::Hypothesis> recognise(const Model& model,
                                          std::span<const std::vector<float>> waveforms,
                                          const HearOptions& options);

/// By the number of tokens that were said.
CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options);

/// A token, and from when to when, in seconds.
struct Timed {
  std::string token;
  double begin, end;
  double probability;
};

/// Cuts the places 0 to S of weights (U, S) into a stretch [begin, end) for each of the first
/// `tokens` rows, in order and without gaps. First the cuts with the largest sum of weights inside
/// the tokens' own stretches; then new cuts between the centres of these weights. A decoder may
/// look at the beginnings of words or at their ends: where between two centres to cut is seen from
/// the first word, which begins at 0, and the last one, which ends at S. Throws when there are
/// fewer places than tokens.
std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens);

/// By what the decoder attended to in a recording of so many seconds. The model must attend, and
/// there must be as many annotations as tokens. Throws where the scores are not numbers.
std::vector<Timed> timed(const Model& model, const models::Hypothesis& hypothesis, double seconds);
/// A JSON array.
std::string json_of(std::span<const Timed> tokens);

/// Given tokens. Throws as `timed` and `stretches` do.
std::vector<Timed> align(const Model& model, const Utterance& utterance);

}  // namespace attune::speech
