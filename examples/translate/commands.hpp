// What the program does with a trained model.
#pragma once

#include <filesystem>

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/search.hpp>

namespace attune::translate {

struct TranslateOptions {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string file;  // empty: standard input
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  Index batch = 64;
  bool scores = false;  // before each line
};

/// A line of the input becomes a line of the output, in order; an empty one stays empty. With
/// search.best > 1 there are so many lines for each, a line without any between. Returns the exit
/// status.
int translate(const TranslateOptions& options);

struct EvaluateOptions {
  std::filesystem::path model = "translate-model/best.safetensors";
  std::string source, target;
  models::SearchOptions search = {.beam = 5, .length_penalty = 1};
  metrics::BleuOptions bleu;
  std::string out;  // empty: translations are not written
  bool json = false;
};

int evaluate_files(const EvaluateOptions& options);

}  // namespace attune::translate
