#include "recogniser.hpp"

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/forced.hpp>
#include <attune/models/joint_ctc.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

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
  const text::TargetBatch target = text::make_target_batch(batch.words, heard.mask.dtype());
  const Var written = std::visit(
      [&](const auto& decoder) {
        return models::loss(decoder, heard, {target.previous, target.next, target.mask});
      },
      decoder_);
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
  const text::TargetBatch target = text::make_target_batch(batch.words, heard.mask.dtype());
  return std::visit(
      [&](const auto& decoder) {
        return models::force_decode(decoder, heard,
                                    models::Target{target.previous, target.next, target.mask});
      },
      decoder_);
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
    std::vector<std::pair<std::string_view, std::string>> scores;
    for (const nn::ScoreKind& kind : nn::score_kinds()) scores.emplace_back(kind.name, kind.name);
    return std::vector<models::OptionField<Options>>{
        number_field<Options>("hidden",
                              "size of each direction of the listener, and of the decoder",
                              &Options::hidden, 1, largest),
        number_field<Options>("layers", "layers of the listener", &Options::layers, 1, 100),
        number_field<Options>("joined", "how many of them, the highest, join two steps into one",
                              &Options::joined, 0, 20),
        choice_field<Options, nn::Cell>("cell", "of all layers", &Options::cell,
                                        {{nn::Cell::gru, "gru"},
                                         {nn::Cell::gru_reset_before, "gru-reset-before"},
                                         {nn::Cell::lstm, "lstm"}}),
        number_field<Options>("embedding", "size of a word's vector", &Options::embedding, 1,
                              largest),
        number_field<Options>("readout", "size of the layer before the softmax", &Options::readout,
                              1, largest),
        number_field<Options>("dropout",
                              "rate between layers, and on words, annotations and readouts",
                              &Options::dropout, 0, 0.99),
        choice_field<Options, Attends>("attends", "whether the decoder attends", &Options::attends,
                                       {{Attends::no, "no"}, {Attends::yes, "yes"}}),
        choice_field<Options, std::string_view>(
            "score", "how places are scored", [](Options & o) -> auto& { return o.score.kind; },
            scores),
        number_field<Options>(
            "attention", "size of the score",
            [](Options & o) -> auto& { return o.score.attention; }, 1, largest),
        number_field<Options>(
            "filters", "filters of the score location-aware",
            [](Options & o) -> auto& { return o.score.location_aware.filters; }, 1, largest),
        number_field<Options>(
            "radius", "places that such a filter sees on each side of its own",
            [](Options & o) -> auto& { return o.score.location_aware.radius; }, 0, 1 << 20),
        choice_field<Options, nn::Window>("window", "which places a step may look at",
                                          [](Options & o) -> auto& { return o.attention.window; },
                                          {{nn::Window::global, "global"},
                                           {nn::Window::local_monotonic, "local-m"},
                                           {nn::Window::local_predictive, "local-p"},
                                           {nn::Window::around_median, "around-median"}}),
        number_field<Options>(
            "half-width", "half width of a window",
            [](Options & o) -> auto& { return o.attention.half_width; }, 1, 1 << 20),
        choice_field<Options, nn::Normalizer>(
            "normalizer", "what makes weights of scores",
            [](Options & o) -> auto& { return o.attention.normalizer; },
            {{nn::Normalizer::softmax, "softmax"},
             {nn::Normalizer::sparsemax, "sparsemax"},
             {nn::Normalizer::sigmoid, "sigmoid"}}),
        number_field<Options>(
            "ctc", "weight of CTC beside attention, in training and in recognising; 0: none",
            &Options::ctc, 0, 0.99)};
  }();
  return fields;
}

}  // namespace attune::speech
