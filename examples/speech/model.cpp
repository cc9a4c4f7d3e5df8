#include "model.hpp"

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

#include "support/checkpoint.hpp"

namespace attune::speech {
namespace {

RecogniserOptions with_bands(RecogniserOptions options, Index bands) {
  options.bands = bands;
  return options;
}

}  // namespace

Model::Model(const RecogniserOptions& options, const LogMelOptions& features, text::Codec codec,
             frames::Scaling scaling, std::unique_ptr<nn::Parameters> parameters)
    : options_(with_bands(options, features.bands)),
      features_(std::make_unique<LogMel>(features)),
      codec_(std::move(codec)),
      scaling_(std::move(scaling)),
      parameters_(std::move(parameters)),
      recogniser_(std::make_unique<Recogniser>(*parameters_, options_, codec_.vocabulary.size())) {}

Model::Model(const RecogniserOptions& options, const LogMelOptions& features, text::Codec codec,
             frames::Scaling scaling, std::uint64_t seed)
    : Model(options, features, std::move(codec), std::move(scaling),
            std::make_unique<nn::Parameters>(seed)) {}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    RecogniserOptions options;
    models::set_fields_from(recogniser_fields(), options, file.metadata);
    check(options);
    LogMelOptions features;
    models::set_fields_from(log_mel_fields(), features, file.metadata);
    frames::Scaling scaling{zeros({features.bands}), zeros({features.bands})};
    nn::load_tensors(file, frames::scaling_tensors(scaling));
    frames::check(scaling);
    text::Codec codec{text::tokenizer_from_json(nn::load_text(file.metadata, "tokenizer")),
                      text::vocabulary_from_json(nn::load_text(file.metadata, "vocabulary"))};
    Model model(options, features, std::move(codec), scaling,
                std::make_unique<nn::Parameters>(file));
    model.metadata_ = file.metadata;
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
  nn::save_tensors(frames::scaling_tensors(scaling_), file);
  file.metadata.merge(models::fields_to_map(recogniser_fields(), options_));
  file.metadata.merge(models::fields_to_map(log_mel_fields(), features_->options()));
  file.metadata["format"] = checkpoint_format;
  file.metadata["tokenizer"] = text::to_json(codec_.tokenizer);
  file.metadata["vocabulary"] = text::to_json(codec_.vocabulary);
}

Tensor Model::hear(std::span<const float> waveform) const {
  return frames::scaled((*features_)(levelled(waveform, rate())), scaling_);
}

double Model::time(Index annotation) const {
  return static_cast<double>(annotation * joined(recogniser_->options())) * features_->step();
}

}  // namespace attune::speech
