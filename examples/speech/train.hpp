// `speech train`
#pragma once

#include "model.hpp"
#include "support/training_options.hpp"

namespace attune::speech {

enum class Tokens { words, characters };

/// All that the command line can say about a training, with its defaults.
struct TrainOptions : TrainingOptions {
  TrainOptions()
      : TrainingOptions{
            .out = "speech-model", .batch = 32, .validate_every = 200, .average = 0.998} {}
  std::string digits;             // directory of the Free Spoken Digit Dataset,
  Index longest = 7;              // joined to strings of so many digits at most;
  std::string list, valid_list;   // or lists of recordings
  Tokens tokens = Tokens::words;  // of their transcripts
  Index steps = 2000;
  double speed = 0.15;                   // recordings are made faster or slower by up to this share
  double silence = 0.1;                  // seconds of it before and after a recording, at most
  double noise = 20;                     // decibels below the recording at the loudest
  Index time_masks = 2, band_masks = 2;  // stretches of time, and of the mel scale, that are hidden
  std::uint64_t seed = 1;
  LogMelOptions features;
  RecogniserOptions network;
};

/// All of it as text, but for `features` and `network`, which have their own fields.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// Those that the run of a checkpoint was started with. Throws an Error that begins with its path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Trains a model and writes best.safetensors, last.safetensors and log.jsonl. Returns the exit
/// status: 0, or 128 + the number of the signal that interrupted it.
int train(const TrainOptions& options);

}  // namespace attune::speech
