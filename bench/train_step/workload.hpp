// What is timed: two models at fixed sizes, and batches of random words.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <attune/models/bahdanau.hpp>
#include <attune/models/luong.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/random.hpp>

namespace attune::bench {

/// Embedding, hidden, attention and vocabulary sizes; source and target steps, sentences; layers of
/// the Luong model, whose attention is of size H.
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

/// Sentences all as long as the sizes say, or from half of that on.
enum class Lengths { full, varied };

text::Batch random_batch(const Sizes& sizes, Lengths lengths, Random& random);

models::BahdanauOptions bahdanau_of(const Sizes& sizes);
models::LuongOptions luong_of(const Sizes& sizes);

/// Calls `use` with the model "bahdanau" or "luong", at these sizes.
template <class Use>
auto with_model(const std::string& model, const nn::Scope& scope, const Sizes& sizes, Use use) {
  if (model == "luong") return use(models::Luong(scope, luong_of(sizes)));
  if (model == "bahdanau") return use(models::Bahdanau(scope, bahdanau_of(sizes)));
  fail("model", "'" + model + "' is not one of bahdanau, luong");
}

/// Floating-point operations of a forward pass over a batch of full length: matrix products and
/// attention sums, a multiplication and an addition for each of their terms, and nothing else.
double forward_flops(const std::string& model, const Sizes& sizes);

}  // namespace attune::bench
