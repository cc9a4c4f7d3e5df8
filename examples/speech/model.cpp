#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/ctc.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/search.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>

#include "speech.hpp"
#include "support/frames.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {

using Options = TrainOptions;
using models::choice_field, models::text_field;

const auto number = [](const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Options>(name, help, member, low, high);
};

Fields<Options> training_fields() {
  return joined<Options>(
      {{text_field<Options>("digits",
                            "directory of the Free Spoken Digit Dataset: strings of its digits are "
                            "trained on (recordings from 10 on) and validated on (5 to 9)",
                            &Options::digits),
        number("max-digits", "digits of a string at most", &Options::longest, 1, 1000),
        text_field<Options>("list", "or file to train on: RECORDING TAB TRANSCRIPT, a line each",
                            &Options::list),
        text_field<Options>("valid-list", "the same, to choose the best weights by",
                            &Options::valid_list),
        choice_field<Options, Tokens>(
            "tokens", "of the transcripts", &Options::tokens,
            {{Tokens::characters, "characters"}, {Tokens::words, "words"}})},
       step_fields<Options>(
           "utterances",
           "rises for 200 steps, is constant until half of all, then falls to 2 % of it",
           "strings, order, augmentation and dropout"),
       {number("speed", "recordings are made faster or slower by up to this share", &Options::speed,
               0, 0.5),
        number("silence", "most seconds of silence at each end of a recording", &Options::silence,
               0, 10),
        number("noise", "noise is at least this many decibels below a recording", &Options::noise,
               -100, 1000),
        number("time-masks", "stretches of time that are hidden", &Options::time_masks, 0, 1000),
        number("band-masks", "stretches of the mel scale that are hidden", &Options::band_masks, 0,
               1000)},
       common_training_fields<Options>()});
}

Fields<Options> network_fields() {
  constexpr double largest = 1 << 16;
  return joined<Options>(
      {{number("hidden", "size of each direction of the listener, and of the decoder",
               &Options::hidden, 1, largest),
        number("layers", "layers of the listener", &Options::layers, 1, 100),
        number("joined", "how many of the highest layers join two steps into one", &Options::joined,
               0, 20),
        models::cell_field<Options>("cell", "of all layers", &Options::cell),
        number("embedding", "size of a word's vector", &Options::embedding, 1, largest),
        number("readout", "size of the layer before the softmax", &Options::readout, 1, largest),
        number("dropout", "rate between layers, and on words, annotations and readouts",
               &Options::dropout, 0, 0.99),
        number("ctc", "weight of CTC beside attention, in training and search; 0: none",
               &Options::ctc, 0, 0.99),
        choice_field<Options, bool>("attends", "whether the decoder attends", &Options::attends,
                                    {{false, "no"}, {true, "yes"}})},
       models::attention_fields<Options>(false)});
}

Fields<Options> feature_fields() {
  const auto of = [](auto LogMelOptions::*member) {
    return [member](Options & o) -> auto& { return o.features.*member; };
  };
  using Mel = LogMelOptions;
  return {
      number("sampling-rate", "samples per second; recordings of another rate are converted",
             of(&Mel::rate), 1000, 192000),
      number("frame", "seconds of a frame", of(&Mel::window), 0.001, 1),
      number("frame-step", "seconds from frame to frame", of(&Mel::step), 0.001, 1),
      number("bands", "bands of the mel scale", of(&Mel::bands), 1, 512),
      number("lowest", "lowest frequency in Hz", of(&Mel::lowest), 0, 96000),
      number("emphasis", "of high frequencies: x_i - emphasis x_{i-1}", of(&Mel::emphasis), 0, 1)};
}

const Fields<Options>& all_fields() {
  static const auto all = joined<Options>({training_fields(), network_fields(), feature_fields()});
  return all;
}

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

std::vector<models::Hypothesis> Model::recognise_batch(const nn::Sequence& frames,
                                                       const HearOptions& how) const {
  const NoGrad no_grad;
  const models::Encoded heard = listener_(frames.x, frames.mask);
  const models::SearchOptions search{
      .beam = how.beam, .max_length = frames.x.dim(0), .within_source = true};
  const auto found = std::visit(
      [&](const auto& decoder) {
        if (!ctc_ || !how.ctc) return models::search(decoder, heard, search);
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

std::vector<models::Hypothesis> Model::recognise(std::span<const std::vector<float>> waveforms,
                                                 const HearOptions& how) const {
  constexpr std::size_t most = 32;           // utterances of a batch,
  const std::size_t samples = 300 * rate();  // and with padding: 5 minutes
  std::vector<std::size_t> order(waveforms.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return waveforms[i].size(); });
  std::vector<models::Hypothesis> all(waveforms.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    stop_if_interrupted();
    for (end = begin + 1; end < order.size() && end < begin + most; ++end)
      if ((end + 1 - begin) * waveforms[order[end]].size() > samples) break;
    std::vector<Tensor> heard;
    for (std::size_t i = begin; i < end; ++i) heard.push_back(hear(waveforms[order[i]]));
    auto found = recognise_batch(frames::make_batch(heard), how);
    for (std::size_t i = begin; i < end; ++i) all[order[i]] = std::move(found[i - begin]);
  }
  return all;
}

models::Hypothesis Model::force(const Utterance& utterance) const {
  const NoGrad no_grad;
  const Tensor features = hear(utterance.samples);
  const auto [x, mask] = frames::make_batch(std::span(&features, 1));
  const models::Encoded heard = listener_(x, mask);
  const text::TargetBatch target =
      text::make_target_batch(std::span(&utterance.tokens, 1), {.mask_dtype = mask.dtype()});
  return std::visit(
             [&](const auto& decoder) { return models::force_decode(decoder, heard, target); },
             decoder_)
      .front();
}

CountsByLength evaluate(const Model& model, std::span<const Utterance> utterances,
                        const HearOptions& options) {
  std::vector<std::vector<float>> waveforms;
  for (const Utterance& one : utterances) waveforms.push_back(one.samples);
  const auto found = model.recognise(waveforms, options);
  CountsByLength counts;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const text::Sentence expected = comparable(utterances[i].tokens);
    const metrics::Edits edits = metrics::edits(found[i].words, expected);
    counts[expected.size()] += {edits, 1, edits.count() == 0};
  }
  return counts;
}

namespace {

/// The ends of the stretches with the largest sum of weights.
std::vector<Index> ends_with_most_weight(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  const float* w = weights.data<float>();
  const auto at = [=](Index u, Index s) { return u * (places + 1) + s; };
  // The most weight of the first u tokens in the first s places; whether place s - 1 begins one.
  std::vector<double> best(at(tokens, places) + 1, -1);
  std::vector<char> begins(best.size(), 0);
  best[0] = 0;
  for (Index u = 1; u <= tokens; ++u) {
    for (Index s = u; s <= places; ++s) {
      const double before = best[at(u - 1, s - 1)], same = best[at(u, s - 1)];
      begins[at(u, s)] = s == u || before > same;
      best[at(u, s)] = std::max(before, same) + static_cast<double>(w[(u - 1) * places + s - 1]);
    }
  }
  std::vector<Index> ends(tokens);
  Index s = places;
  for (Index u = tokens; u > 0; --u) {
    ends[u - 1] = s;
    while (!begins[at(u, s)]) --s;
    --s;
  }
  return ends;
}

/// For each token the mean place, from 0 to S, of its weights within its own stretch.
std::vector<double> centres(const Tensor& weights, const std::vector<Index>& ends) {
  const float* w = weights.data<float>();
  std::vector<double> all;
  Index begin = 0;
  for (const Index end : ends) {
    double sum = 0, places = 0;
    for (Index s = begin; s < end; ++s) {
      sum += static_cast<double>(w[s]);
      places += static_cast<double>(w[s]) * (static_cast<double>(s) + 0.5);
    }
    all.push_back(sum > 0 ? places / sum : static_cast<double>(begin + end) / 2);
    begin = end;
    w += weights.dim(1);
  }
  return all;
}

}  // namespace

std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  if (tokens > places)
    fail("align", fmt::format("{} tokens do not fit into {} annotations", tokens, places));
  if (tokens == 0) return {};
  const std::vector<double> c = centres(weights, ends_with_most_weight(weights, tokens));
  const double before = c.front(), after = static_cast<double>(places) - c.back();
  std::vector<std::pair<Index, Index>> all{{0, places}};
  for (Index u = 1; u < tokens; ++u) {
    const double cut = c[u - 1] + (c[u] - c[u - 1]) * after / (before + after);
    all.back().second =
        std::clamp<Index>(std::lround(cut), all.back().first + 1, places - (tokens - u));
    all.emplace_back(all.back().second, places);
  }
  return all;
}

}  // namespace attune::speech
