// One training run, and how well it translates sentences of every length.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "task.hpp"
#include "variants.hpp"

namespace attune::long_sentences {

/// Lengths of the test sentences; each set has no other.
inline constexpr std::array<Index, 7> lengths = {5, 10, 20, 30, 40, 50, 60};

/// What a model is trained on; all are tested on all lengths.
struct Setting {
  std::string name;
  Index longest;  // sentence in training
};
inline const std::array<Setting, 2> settings = {{{"a", 20}, {"b", lengths.back()}}};

/// The same for every variant.
struct Budget {
  Index steps = 1500;  // batches, each of sentences of one length
  Index hidden = 64;
  Index batch = 64;    // sentences
  Index words = 80;    // of the language
  Index tested = 50;   // sentences of each length
  double rate = 6e-3;  // of Adam
  double clip = 1;
};

struct Result {
  std::array<double, lengths.size()> accuracy = {};  // share of target positions, 0 to 1
  double loss = 0;                                   // of the last batch
  double seconds = 0;                                // of processor time
  Index parameters = 0;
};

/// Trains and tests. What comes out depends on the arguments alone (but for the seconds). Lengths
/// in training are 1 + ⌊longest · u²⌋ with u uniform in [0, 1): a third of the batches are shorter
/// than 7 of 60 words, which a model without attention can learn, and cheap; and there are long
/// ones from the first step on, which only attention can.
Result run(const Setting& setting, const Variant& variant, std::uint64_t seed,
           const Budget& budget);

}  // namespace attune::long_sentences
