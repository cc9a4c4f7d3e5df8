// What is timed and checked: models at fixed sizes, and batches of random words.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/models/papers.hpp>
#include <attune/models/transformer.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/random.hpp>

namespace attune::bench {

/// Embedding, hidden, attention and vocabulary sizes; source and target steps, sentences; layers of
/// the Luong model, whose attention is of size H. Of a Transformer: width E, inner size H, A heads,
/// L layers (of encoder and decoder each).
struct Sizes {
  Index E = 1, H = 1, A = 1, V = 5, S = 1, T = 1, B = 1, L = 1;
};

inline constexpr std::array<std::pair<const char*, Index Sizes::*>, 8> letters_of_sizes = {
    {{"E", &Sizes::E},
     {"H", &Sizes::H},
     {"A", &Sizes::A},
     {"V", &Sizes::V},
     {"S", &Sizes::S},
     {"T", &Sizes::T},
     {"B", &Sizes::B},
     {"L", &Sizes::L}}};

const std::map<std::string, Sizes>& configurations();

/// Sentences are all as long as the sizes say, or have from half of these words on.
text::Batch random_batch(const Sizes& sizes, bool varied, Random& random);

/// A language model of the target's words, in the form of a model with a source.
struct LanguageModel : models::TransformerLm {
  using TransformerLm::TransformerLm;
  static models::Encoded encode(const Tensor& source, const Tensor&) {
    return models::no_source(source.dim(1));
  }
};

/// Calls `use` with the model "bahdanau", "luong", "transformer" or "lm", at these sizes.
template <class Use>
auto with_model(const std::string& model, const nn::Scope& scope, const Sizes& sizes, Use use) {
  if (model == "luong") {
    return use(models::Luong(scope, {.source_vocabulary = sizes.V,
                                     .target_vocabulary = sizes.V,
                                     .embedding = sizes.E,
                                     .hidden = sizes.H,
                                     .encoder_layers = sizes.L,
                                     .decoder_layers = sizes.L}));
  }
  if (model == "bahdanau") {
    return use(models::Bahdanau(scope, {.source_vocabulary = sizes.V,
                                        .target_vocabulary = sizes.V,
                                        .embedding = sizes.E,
                                        .hidden = sizes.H,
                                        .readout = sizes.E,
                                        .score = {.attention = sizes.A}}));
  }
  const models::TransformerOptions transformer = {
      .source_vocabulary = sizes.V,
      .target_vocabulary = sizes.V,
      .layer = {.size = sizes.E,
                .heads = sizes.A,
                .inner = sizes.H,
                .nonlinearity = model == "lm" ? nn::Nonlinearity::gelu : nn::Nonlinearity::relu},
      .encoder_layers = sizes.L,
      .decoder_layers = sizes.L};
  if (model == "transformer") return use(models::Transformer(scope, transformer));
  if (model == "lm") return use(LanguageModel(scope, transformer));
  fail("model", "'" + model + "' is not one of bahdanau, luong, transformer, lm");
}

/// Floating-point operations of a forward pass over a batch of full length: matrix products and
/// attention sums, a multiplication and an addition for each of their terms, and nothing else.
double forward_flops(const std::string& model, const Sizes& sizes);

/// Reads a safetensors file with weights, a batch, its loss and the gradients, as
/// bench/peers/npz_to_safetensors.py writes it, and prints the largest relative difference of the
/// loss and of each gradient computed here. False when the loss differs by more than 1e-4, or a
/// gradient by more than 1e-3 of its largest element.
bool check(const std::filesystem::path& path);

}  // namespace attune::bench
