// The network that listens: a pyramid of recurrent layers, a decoder that attends, and CTC.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include <attune/models/bahdanau.hpp>
#include <attune/models/encoder_decoder.hpp>
#include <attune/models/hypothesis.hpp>
#include <attune/models/listener.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/search.hpp>
#include <attune/nn/score_kind.hpp>

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

}  // namespace attune::speech
