#include "recogniser.hpp"

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/forced.hpp>
#include <attune/models/joint_ctc.hpp>
#include <attune/models/layer_fields.hpp>
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

}  // namespace attune::speech
