#include <cmath>

#include <fmt/format.h>

#include <attune/models/transformer.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {
namespace {

std::vector<nn::TransformerLayer> make_layers(const nn::Scope& scope, Index count,
                                              const TransformerOptions& o, nn::Causal causal,
                                              Index memory) {
  std::vector<nn::TransformerLayer> layers;
  for (Index i = 1; i <= count; ++i)
    layers.emplace_back(scope / fmt::format("layer{}", i), o.layer, causal, memory);
  return layers;
}

std::optional<nn::LayerNorm> last_norm(const nn::Scope& scope, const TransformerOptions& o) {
  if (o.layer.norm == nn::Norm::after) return {};
  return nn::LayerNorm(scope / "norm", o.layer.size);
}

/// The layout of the tokens up to the last one with mask 1 in each sentence, or of all tokens
/// without a mask. Includes tokens that only the loss excludes, as later ones attend to them.
nn::Layout words_of(const Mask& mask) {
  if (!mask.defined()) return {};
  return nn::Layout::packed(Mask::unchecked(cumsum(mask, 0, Direction::backward) > 0));
}

/// Embeddings with an expected length of 1: times √D they are as large as positional encodings.
/// Also suitable for a tied output layer.
nn::Init vectors_init(const TransformerOptions& o) {
  return nn::init::normal(1 / std::sqrt(static_cast<double>(o.layer.size)));
}

}  // namespace

OptionList fields_of(TransformerOptions& o) {
  const auto rate = [](const char* name, const char* help, double& value, double low) {
    return option(name, help, value, low, highest_dropout);
  };
  return {option("hidden", "size D of embeddings and states", o.layer.size, 1, largest_size),
          option("attention-heads", "heads of every attention", o.layer.heads, 1, largest_size),
          option("inner", "hidden size of the feed-forward blocks", o.layer.inner, 1, largest_size),
          option("encoder-layers", "layers of the encoder", o.encoder_layers, 1, most_layers),
          option("decoder-layers", "layers of the decoder", o.decoder_layers, 1, most_layers),
          choice("nonlinearity", "function in feed-forward blocks", o.layer.nonlinearity,
                 {"relu", "gelu"}),
          choice("norm", "pre-norm (before each block) or post-norm (after)", o.layer.norm,
                 {"before", "after"}),
          tied_option(o.tied),
          option("alignment-layer",
                 "decoder layer whose attention is used as word alignment; 0: penultimate",
                 o.alignment_layer, 0, most_layers),
          rate("dropout", "dropout rate on embeddings and block outputs", o.layer.dropout, 0),
          rate("attention-dropout", "rate on attention weights; -1: as --dropout",
               o.layer.attention_dropout, -1),
          rate("inner-dropout", "rate in the feed-forward blocks; -1: as --dropout",
               o.layer.inner_dropout, -1)};
}

TransformerEmbedding::TransformerEmbedding(const nn::Scope& scope, const char* name,
                                           Integer vocabulary, const TransformerOptions& o,
                                           const nn::Embedding* table)
    : table_(table ? *table
                   : nn::Embedding(scope / name, vocabulary, o.layer.size, vectors_init(o))),
      positions_(o.layer.size, scope.dtype()),
      dropout_(o.layer.dropout) {
  require_one_vocabulary(vocabulary, table_.table().dim(0));
}

Var TransformerEmbedding::embed(const Tensor& ids) const {
  return table_(ids) * std::sqrt(static_cast<double>(table_.table().dim(1)));
}

TransformerEncoder::TransformerEncoder(const nn::Scope& scope, const TransformerOptions& o,
                                       const nn::Embedding* table)
    : size_(o.layer.size),
      source_(scope, "source", o.source_vocabulary, o, table),
      layers_(make_layers(scope / "encoder", o.encoder_layers, o, nn::Causal::no, 0)),
      norm_(last_norm(scope / "encoder", o)) {}

Encoded TransformerEncoder::encode(const Tensor& source, const Mask& mask) const {
  require_padding_at_end(mask);  // positions are counted from the start
  const nn::Layout layout = nn::Layout::packed(mask);
  Var x = layout.pack(source_.with_positions(source_.embed(source), 0));
  for (const nn::TransformerLayer& layer : layers_) x = layer(x, layout).y;
  x = layout.unpack(norm_ ? (*norm_)(x) : x);
  Encoded encoded{x, {}, mask};
  encoded.last = {{.h = mean_annotation(encoded)}};
  return encoded;
}

TransformerDecoder::TransformerDecoder(const nn::Scope& scope, const Options& o, Integer memory)
    : options_(o),
      target_(scope, "target", o.target_vocabulary, o),
      layers_(make_layers(scope / "decoder", o.decoder_layers, o, nn::Causal::yes, memory)),
      norm_(last_norm(scope / "decoder", o)),
      aligned_(static_cast<std::size_t>(o.alignment_layer > 0
                                            ? o.alignment_layer - 1
                                            : std::max<Index>(0, o.decoder_layers - 2))),
      attends_(memory > 0) {
  if (o.alignment_layer < 0 || aligned_ >= layers_.size())
    fail("Transformer", "there is no layer {} in a decoder of {}",
         o.alignment_layer == 0 ? 1 : o.alignment_layer, layers_.size());
  const nn::Scope output = scope / "output";
  const bool tied = o.tied != Tied::none;
  output_ = {tied ? table().table()
                  : output.add("W", {o.layer.size, o.target_vocabulary}, vectors_init(o)),
             output.add("b", {o.target_vocabulary}, nn::init::zeros()), tied};
}

Var TransformerDecoder::annotations(const Encoded& source, const nn::Layout& layout) const {
  if (!attends_) return {};
  if (!source.h.defined())
    fail("Transformer", "the source has no annotations: Encoded::h is undefined");
  ShapeCheck("Transformer")("annotations", source.h, "S B D")("mask", source.mask, "S B");
  return layout.pack(source.h);
}

TransformerDecoder::State TransformerDecoder::start(const Encoded& source) const {
  State state{std::vector<nn::KeyValueCache>(layers_.size()),
              std::vector<nn::KeyValueCache>(layers_.size())};
  const Var h = annotations(source, {});
  for (std::size_t i = 0; i < layers_.size() && attends_; ++i)
    state.memory[i] =
        nn::KeyValueCache::of_memory(layers_[i].precompute(h, {}).keys_values, source.mask);
  return state;
}

TransformerDecoder::Step TransformerDecoder::step(const Var& word, const State& before) const {
  Step step{.output = {}, .weights = {}, .state = before};
  const Tensor& rows = before.self[0].rows;
  const Index steps = rows.defined() ? rows.dim(0) : 0;
  Var x = target_.with_positions(reshape(word, word.shape().inserted(0, 1)), steps)[0];
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool asked = attends_ && i == aligned_;
    auto layer = layers_[i].step(x, step.state.self[i], before.memory[i],
                                 asked ? nn::Weights::mean : nn::Weights::no);
    x = std::move(layer.y);
    if (asked) step.weights = std::move(layer.weights);
  }
  step.output = norm_ ? (*norm_)(x) : x;
  return step;
}

DecoderSteps<Var, Var> TransformerDecoder::unroll(const Encoded& source, const Tensor& previous,
                                                  const Mask& mask, nn::Weights weights) const {
  DecoderSteps<Var, Var> all{.words = read(previous), .outputs = {}, .weights = {}};
  const nn::Layout words = words_of(mask), annotated = nn::Layout::packed(source.mask);
  const Var h = annotations(source, annotated);
  Var x = words.pack(target_.with_positions(all.words, 0));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const bool asked = weights != nn::Weights::no && attends_ && i == aligned_;
    const auto memory =
        attends_ ? layers_[i].precompute(h, annotated) : nn::TransformerLayer::Memory{};
    auto layer = layers_[i](x, words, memory, asked ? weights : nn::Weights::no);
    x = std::move(layer.y);
    for (Index t = 0; asked && t < previous.dim(0); ++t) all.weights.push_back(layer.weights[t]);
  }
  all.outputs.push_back(words.unpack(norm_ ? (*norm_)(x) : x));
  return all;
}

AffineLogits TransformerDecoder::logits(const Var&, const std::vector<Var>& outputs) const {
  return {outputs.front().rank() == 3 ? outputs.front() : attune::stack(outputs), output_};
}

TransformerDecoder::State TransformerDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.memory, rows), nn::select(state.self, rows)};
}

template struct detail::ModelOf<Transformer>;
template struct detail::ModelOf<TransformerLm>;

}  // namespace attune::models
