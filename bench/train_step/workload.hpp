// The models at fixed sizes and the batches of random words that are timed and checked.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/models/loss.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/transformer.hpp>
#include <attune/tensor/random.hpp>

namespace attune::bench {

/// E, H, A, V: embedding, hidden, attention and vocabulary size. S, T: source and target steps. B:
/// sentences. L: layers of the Luong model, whose attention has size H. Transformers: model size E,
/// feed-forward size H, A heads, L layers of encoder and of decoder.
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

/// Sentences of full length (S and T words); if `varied`, of random lengths from half of it on.
text::Batch random_batch(const Sizes& sizes, bool varied, Random& random);

/// A language model of the target, with the interface of a model with a source.
struct LanguageModel : models::TransformerLm {
  using TransformerLm::TransformerLm;
  static models::Encoded encode(const Tensor& source, const Tensor&) {
    return models::no_source(source.dim(1));
  }
};

/// Calls `use` with the model "bahdanau", "luong", "transformer" or "lm" of these sizes.
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

/// Floating-point operations of a forward pass over a batch of full length. Counts only matrix
/// products and attention sums, with a multiplication and an addition for each term.
double forward_flops(const std::string& model, const Sizes& sizes);

/// Reads a file written by bench/peers/npz_to_safetensors.py: weights, a batch, its loss and
/// gradients. Computes the same loss and gradients, and prints the largest relative difference of
/// each. Returns false if the loss differs by more than 1e-4, or a gradient by more than 1e-3 of
/// its largest element.
bool check(const std::filesystem::path& path);

}  // namespace attune::bench
