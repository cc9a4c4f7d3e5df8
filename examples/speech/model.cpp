#include <algorithm>
#include <cmath>
#include <numeric>

#include <attune/autograd/ops.hpp>
#include <attune/models/ctc.hpp>
#include <attune/models/search.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>

#include "speech.hpp"
#include "support/frames.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

constexpr const char* checkpoint_format = "attune speech 3";

models::ListenerOptions listener_options(const TrainOptions& o) {
  std::vector<Index> join(o.layers - o.joined, 1);
  join.resize(o.layers, 2);
  return {.features = o.features.bands,
          .hidden = o.hidden,
          .join = join,
          .cell = o.cell,
          .dropout = o.dropout};
}

Decoder make_decoder(const nn::Scope& scope, const TrainOptions& o, models::EncodedSizes sizes,
                     Index vocabulary) {
  const auto set = [&](auto options) {
    options.target_vocabulary = vocabulary;
    options.embedding = o.embedding, options.hidden = o.hidden, options.readout = o.readout;
    options.cell = o.cell, options.dropout = o.dropout;
    return options;
  };
  if (!o.attends)
    return models::LastStateDecoder(scope, set(models::EncoderDecoderOptions()), sizes);
  const nn::Scope place = scope / "attention";
  return models::BahdanauDecoder(scope, set(models::BahdanauOptions()), sizes,
                                 nn::Attention(nn::make_score(place, o.hidden, sizes.h, o.score),
                                               place, o.hidden, o.attention));
}

}  // namespace

Model::Model(const TrainOptions& o, text::Codec own_codec, frames::Scaling own_scaling,
             std::unique_ptr<nn::Parameters> own_parameters)
    : options(o),
      features(o.features),
      codec(std::move(own_codec)),
      scaling(std::move(own_scaling)),
      parameters(std::move(own_parameters)),
      listener_(*parameters / "listener", listener_options(o)),
      decoder_(make_decoder(*parameters, o, listener_.sizes(), codec.vocabulary.size())) {
  if (o.ctc > 0) ctc_.emplace(*parameters / "ctc", listener_.sizes().h, codec.vocabulary.size());
}

Var Model::loss(const Batch& batch) const {
  const models::Encoded heard = listener_(batch.frames.x, batch.frames.mask);
  const text::TargetBatch target =
      text::make_target_batch(batch.words, {.mask_dtype = heard.mask.dtype()});
  const Var written = std::visit(
      [&](const auto& decoder) { return models::loss(decoder, heard, target); }, decoder_);
  if (!ctc_) return written;
  const auto [labels, labels_mask] = text::make_source_batch(batch.words, heard.mask.dtype());
  return (1 - options.ctc) * written +
         options.ctc * ctc_loss((*ctc_)(heard.h), heard.mask, labels, labels_mask);
}

std::vector<models::Hypothesis> Model::recognise(const nn::Sequence& frames,
                                                 const models::SearchOptions& search,
                                                 bool ctc) const {
  const NoGrad no_grad;
  const models::Encoded heard = listener_(frames.x, frames.mask);
  const auto found = std::visit(
      [&](const auto& decoder) {
        if (!ctc_ || !ctc) return models::search(decoder, heard, search);
        return models::search(
            models::JointCtc(decoder, {.weight = options.ctc}),
            models::CtcEncoded<models::Encoded>{heard, heard.mask, (*ctc_)(heard.h).value()},
            search);
      },
      decoder_);
  std::vector<models::Hypothesis> best;
  for (const auto& hypotheses : found) best.push_back(hypotheses.front());
  return best;
}

std::vector<models::Hypothesis> Model::force(const Batch& batch) const {
  const NoGrad no_grad;
  const models::Encoded heard = listener_(batch.frames.x, batch.frames.mask);
  const text::TargetBatch target =
      text::make_target_batch(batch.words, {.mask_dtype = heard.mask.dtype()});
  return std::visit(
      [&](const auto& decoder) { return models::force_decode(decoder, heard, target); }, decoder_);
}

void check(const TrainOptions& o) {
  if (o.joined > o.layers)
    fail("--joined", fmt::format("there are {} layers, not {}", o.layers, o.joined));
}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    const TrainOptions options = options_from(all_fields(), file.metadata);
    check(options);
    const Shape shape{options.features.bands};
    frames::Scaling scaling{zeros(shape), zeros(shape)};
    nn::load_tensors(file, frames::scaling_tensors(scaling));
    frames::check(scaling);
    text::Codec codec{text::tokenizer_from_json(nn::load_text(file.metadata, "tokenizer")),
                      text::vocabulary_from_json(nn::load_text(file.metadata, "vocabulary"))};
    Model model(options, std::move(codec), scaling, std::make_unique<nn::Parameters>(file));
    model.metadata = file.metadata;
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters, file);
  nn::save_tensors(frames::scaling_tensors(scaling), file);
  file.metadata.merge(to_metadata(all_fields(), options));
  file.metadata["format"] = checkpoint_format;
  file.metadata["tokenizer"] = text::to_json(codec.tokenizer);
  file.metadata["vocabulary"] = text::to_json(codec.vocabulary);
}

Tensor Model::hear(std::span<const float> waveform) const {
  return frames::scaled(features(levelled(waveform, rate())), scaling);
}

double Model::time(Index annotation) const {
  return annotation * options.frames_joined() * features.step();
}

std::vector<models::Hypothesis> recognise(const Model& model,
                                          std::span<const std::vector<float>> waveforms,
                                          const HearOptions& options) {
  constexpr std::size_t most = 32;                 // utterances of a batch,
  const std::size_t samples = 300 * model.rate();  // and with padding: 5 minutes
  std::vector<std::size_t> order(waveforms.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return waveforms[i].size(); });
  std::vector<models::Hypothesis> all(waveforms.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    stop_if_interrupted();
    for (end = begin + 1; end < order.size() && end < begin + most; ++end)
      if ((end + 1 - begin) * waveforms[order[end]].size() > samples) break;
    std::vector<Tensor> heard;
    for (std::size_t i = begin; i < end; ++i) heard.push_back(model.hear(waveforms[order[i]]));
    const nn::Sequence frames = frames::make_batch(heard);
    auto found = model.recognise(
        frames, {.beam = options.beam, .max_length = frames.x.dim(0), .within_source = true},
        options.ctc);
    for (std::size_t i = begin; i < end; ++i) all[order[i]] = std::move(found[i - begin]);
  }
  return all;
}

CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options) {
  std::vector<std::vector<float>> waveforms;
  for (const Utterance& one : utterances) waveforms.push_back(one.samples);
  const auto found = recognise(model, waveforms, options);
  CountsByLength counts;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const text::Sentence expected = comparable(utterances[i].tokens);
    const metrics::Edits edits = metrics::edits(found[i].words, expected);
    counts[expected.size()] += {edits, 1, edits.count() == 0};
  }
  return counts;
}

}  // namespace attune::speech
