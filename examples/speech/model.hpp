// A recogniser, with what its numbers mean: features, scaling, words.
#pragma once

#include <filesystem>
#include <memory>

#include <attune/models/frames/scaling.hpp>
#include <attune/models/text/codec.hpp>
#include <attune/nn/parameters.hpp>

#include "features.hpp"
#include "recogniser.hpp"

namespace attune::speech {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune speech 2";

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

}  // namespace attune::speech
