#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/forced.hpp>
#include <attune/models/frames/batches.hpp>
#include <attune/models/joint_ctc.hpp>
#include <attune/models/layer_fields.hpp>
#include <attune/models/report/log.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {

namespace {

models::ListenerOptions listener_options(const RecogniserOptions& o) {
  std::vector<Index> join(static_cast<std::size_t>(o.layers), 1);
  for (Index l = o.layers - o.joined; l < o.layers; ++l) join[static_cast<std::size_t>(l)] = 2;
  return {
      .features = o.bands, .hidden = o.hidden, .join = join, .cell = o.cell, .dropout = o.dropout};
}

using Decoder = std::variant<models::BahdanauDecoder, models::LastStateDecoder>;

Decoder make_decoder(const nn::Scope& scope, const RecogniserOptions& o, models::EncodedSizes sizes,
                     Index vocabulary) {
  if (o.attends == Attends::no) {
    return models::LastStateDecoder(scope,
                                    {.target_vocabulary = vocabulary,
                                     .embedding = o.embedding,
                                     .hidden = o.hidden,
                                     .readout = o.readout,
                                     .cell = o.cell,
                                     .dropout = o.dropout},
                                    sizes);
  }
  const nn::Scope place = scope / "attention";
  return models::BahdanauDecoder(scope,
                                 {.target_vocabulary = vocabulary,
                                  .embedding = o.embedding,
                                  .hidden = o.hidden,
                                  .readout = o.readout,
                                  .cell = o.cell,
                                  .dropout = o.dropout},
                                 sizes,
                                 nn::Attention(nn::make_score(place, o.hidden, sizes.h, o.score),
                                               place, o.hidden, o.attention));
}

}  // namespace

Recogniser::Recogniser(const nn::Scope& scope, const RecogniserOptions& o, Index vocabulary)
    : options_(o),
      listener_(scope / "listener", listener_options(o)),
      decoder_(make_decoder(scope, o, listener_.sizes(), vocabulary)) {
  if (o.ctc > 0) ctc_.emplace(scope / "ctc", listener_.sizes().h, vocabulary);
}

Var Recogniser::loss(const Batch& batch) const {
  const models::Encoded heard = listener_(batch.frames.x, batch.frames.mask);
  const text::TargetBatch target =
      text::make_target_batch(batch.words, {.mask_dtype = heard.mask.dtype()});
  const Var written = std::visit(
      [&](const auto& decoder) { return models::loss(decoder, heard, target); }, decoder_);
  if (!ctc_) return written;
  const auto [labels, labels_mask] = text::make_source_batch(batch.words, heard.mask.dtype());
  return (1 - options_.ctc) * written +
         options_.ctc * ctc_loss((*ctc_)(heard.h), heard.mask, labels, labels_mask);
}

std::vector<models::Hypothesis> Recogniser::recognise(const nn::Sequence& frames,
                                                      const models::SearchOptions& search,
                                                      bool ctc) const {
  const NoGrad no_grad;
  const models::Encoded heard = listener_(frames.x, frames.mask);
  const auto found = std::visit(
      [&](const auto& decoder) {
        if (!ctc_ || !ctc) return models::search(decoder, heard, search);
        return models::search(
            models::JointCtc(decoder, {.weight = options_.ctc}),
            models::CtcEncoded<models::Encoded>{heard, heard.mask, (*ctc_)(heard.h).value()},
            search);
      },
      decoder_);
  std::vector<models::Hypothesis> best;
  for (const auto& hypotheses : found) best.push_back(hypotheses.front());
  return best;
}

std::vector<models::Hypothesis> Recogniser::force(const Batch& batch) const {
  const NoGrad no_grad;
  const models::Encoded heard = listener_(batch.frames.x, batch.frames.mask);
  const text::TargetBatch target =
      text::make_target_batch(batch.words, {.mask_dtype = heard.mask.dtype()});
  return std::visit(
      [&](const auto& decoder) { return models::force_decode(decoder, heard, target); }, decoder_);
}

void check(const RecogniserOptions& o) {
  if (o.joined > o.layers)
    fail("--joined", fmt::format("there are {} layers, not {}", o.layers, o.joined));
}

std::span<const models::OptionField<RecogniserOptions>> recogniser_fields() {
  using Options = RecogniserOptions;
  using models::choice_field, models::number_field;
  constexpr double largest = 1 << 16;
  static const auto fields = [] {
    std::vector<models::OptionField<Options>> all = {
        number_field<Options>("hidden",
                              "size of each direction of the listener, and of the decoder",
                              &Options::hidden, 1, largest),
        number_field<Options>("layers", "layers of the listener", &Options::layers, 1, 100),
        number_field<Options>("joined", "how many of the highest layers join two steps into one",
                              &Options::joined, 0, 20),
        models::cell_field<Options>("cell", "of all layers", &Options::cell),
        number_field<Options>("embedding", "size of a word's vector", &Options::embedding, 1,
                              largest),
        number_field<Options>("readout", "size of the layer before the softmax", &Options::readout,
                              1, largest),
        number_field<Options>("dropout",
                              "rate between layers, and on words, annotations and readouts",
                              &Options::dropout, 0, 0.99),
        number_field<Options>("ctc",
                              "weight of CTC beside attention, in training and search; 0: none",
                              &Options::ctc, 0, 0.99),
        choice_field<Options, Attends>("attends", "whether the decoder attends", &Options::attends,
                                       {{Attends::no, "no"}, {Attends::yes, "yes"}})};
    for (auto& field : models::attention_fields<Options>(false)) all.push_back(std::move(field));
    return all;
  }();
  return fields;
}

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

std::vector<models::Hypothesis> recognise(const Model& model,
                                          std::span<const std::vector<float>> waveforms,
                                          const HearOptions& options) {
  constexpr std::size_t most = 32;                                    // utterances of a batch,
  const auto samples = static_cast<std::size_t>(300 * model.rate());  // and with padding: 5 minutes
  std::vector<std::size_t> order(waveforms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return waveforms[i].size(); });
  std::vector<models::Hypothesis> all(waveforms.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    stop_if_interrupted();
    for (end = begin + 1; end < order.size() && end < begin + most; ++end) {
      if ((end + 1 - begin) * waveforms[order[end]].size() > samples) break;
    }
    std::vector<Tensor> heard;
    for (std::size_t i = begin; i < end; ++i) heard.push_back(model.hear(waveforms[order[i]]));
    const nn::Sequence frames = frames::make_batch(heard);
    auto found = model.recogniser().recognise(
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
  const std::vector<models::Hypothesis> found = recognise(model, waveforms, options);
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
  const auto at = [=](Index u, Index s) { return static_cast<std::size_t>(u * (places + 1) + s); };
  // The most weight of the first u tokens within the first s places; whether place s - 1 begins
  // one.
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
  std::vector<Index> ends(static_cast<std::size_t>(tokens));
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
    const Index place =
        std::clamp<Index>(std::lround(cut), all.back().first + 1, places - (tokens - u));
    all.back().second = place;
    all.emplace_back(place, places);
  }
  return all;
}

std::vector<Timed> timed(const Model& model, const models::Hypothesis& h, double seconds) {
  if (!std::isfinite(h.log_probability)) fail("align", "the model's scores are not numbers");
  const auto places = stretches(h.weights, std::ssize(h.words));
  std::vector<Timed> all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    all.push_back({.token = model.codec().vocabulary.token(h.words[i]),
                   .begin = model.time(places[i].first),
                   .end = model.time(places[i].second),
                   .probability = std::exp(h.word_log_probabilities[i])});
  }
  // The last annotation may stand for more frames than there are.
  if (!all.empty()) all.back().end = seconds;
  return all;
}

std::string json_of(std::span<const Timed> tokens) {
  std::vector<std::string> all;
  for (const Timed& one : tokens) {
    all.push_back(report::log_line({{"token", one.token},
                                    {"begin", one.begin},
                                    {"end", one.end},
                                    {"probability", one.probability}}));
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

std::vector<Timed> align(const Model& model, const Utterance& utterance) {
  const Tensor heard = model.hear(utterance.samples);
  const Batch batch{frames::make_batch(std::span(&heard, 1)), {utterance.tokens}};
  const double seconds =
      static_cast<double>(utterance.samples.size()) / static_cast<double>(model.rate());
  return timed(model, model.recogniser().force(batch).front(), seconds);
}

}  // namespace attune::speech
