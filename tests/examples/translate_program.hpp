// What the tests of the translate program share: runs of it on a language that is English in
// capitals and from right to left, and a model that knows it.
#pragma once

#include <random>

#include <fmt/format.h>

#include "tools.hpp"

namespace attune::translate::test {

using namespace attune::test;

inline const std::vector<std::pair<std::string, std::string>> lexicon = {
    {"one", "EINS"},  {"two", "ZWEI"},  {"three", "DREI"},   {"four", "VIER"},
    {"five", "FÜNF"}, {"six", "SECHS"}, {"seven", "SIEBEN"}, {"eight", "ACHT"}};

/// Sentences and their translations.
struct Text {
  std::string source, target;
};
inline Text sentences(int count, unsigned seed) {
  std::mt19937 random(seed);
  Text text;
  for (int i = 0; i < count; ++i) {
    std::string source, target;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const auto& [from, to] = lexicon[random() % lexicon.size()];
      source += (source.empty() ? "" : " ") + from;
      target = to + (target.empty() ? "" : " ") + target;
    }
    text.source += source + "\n", text.target += target + "\n";
  }
  return text;
}

/// A directory with a corpus.
struct Corpus : Directory {
  Corpus() {
    const Text train = sentences(400, 1), valid = sentences(30, 2);
    write(*this / "train.en", train.source), write(*this / "train.xx", train.target);
    write(*this / "valid.en", valid.source), write(*this / "valid.xx", valid.target);
  }
  Arguments train(const std::string& out, const Arguments& more) const {
    return Arguments{"train",
                     "--out",
                     *this / out,
                     "--source",
                     *this / "train.en",
                     "--target",
                     *this / "train.xx",
                     "--valid-source",
                     *this / "valid.en",
                     "--valid-target",
                     *this / "valid.xx"} +
           more;
  }
};

inline ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  return run_program(ATTUNE_TRANSLATE, arguments, std::move(options));
}

inline std::string output_of(const Arguments& arguments, ProcessOptions options = {}) {
  const ProcessResult result = run(arguments, std::move(options));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

inline std::string error_of(const Arguments& arguments, ProcessOptions options = {}) {
  return error_line("translate", run(arguments, std::move(options)));
}

inline const Arguments tiny = {"--tokens",    "words", "--embedding", "16",  "--hidden",  "32",
                               "--attention", "16",    "--readout",   "16",  "--dropout", "0",
                               "--batch",     "16",    "--bleu",      "none"};
/// Eight epochs of 25 updates with everything that has a state.
inline const Arguments with_state =
    tiny + Arguments{"--epochs",   "8",  "--validate-every", "20", "--average", "0.9",
                     "--halve",    "1",  "--warm-up",        "10", "--dropout", "0.1",
                     "--patience", "100"};

/// A model that knows the language, trained when a test first asks for it.
struct Trained : Corpus {
  Trained() {
    output_of(train(
        "model", tiny + Arguments{"--rate", "0.01", "--epochs", "20", "--validate-every", "100"}));
  }
  static const Trained& get() {
    static const Trained trained;
    return trained;
  }
  std::string model() const { return *this / "model/best.safetensors"; }
};

}  // namespace attune::translate::test
