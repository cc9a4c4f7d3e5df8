// Shared by the tests of attune: runs on a toy language (the target has German number words in
// capitals and in reverse order), on words and their phones, and trained models of both.
#pragma once

#include <random>

#include <fmt/format.h>

#include "program.hpp"

namespace attune::pairs::test {

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

inline std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

/// A directory with a corpus.
struct Corpus : Directory {
  Corpus() {
    const Text train = sentences(400, 1), valid = sentences(30, 2);
    write(*this / "train.en", train.source), write(*this / "train.xx", train.target);
    write(*this / "valid.en", valid.source), write(*this / "valid.xx", valid.target);
  }
  /// The lines of two files as a TSV.
  std::string columns(const std::string& name, const char* first, const char* second) const {
    const auto a = lines_of(read(*this / (name + first))),
               b = lines_of(read(*this / (name + second)));
    std::string tsv;
    for (std::size_t i = 0; i < a.size(); ++i) tsv += a[i] + "\t" + b[i] + "\n";
    return tsv;
  }
  Arguments train(const std::string& out, const Arguments& more) const {
    return Arguments{"train",
                     "--out",
                     *this / out,
                     "--train",
                     *this / "train.en",
                     "--train-target",
                     *this / "train.xx",
                     "--valid",
                     *this / "valid.en",
                     "--valid-target",
                     *this / "valid.xx"} +
           more;
  }
};

/// The JSON object that a command prints.
inline Json json_of(const Arguments& arguments, ProcessOptions options = {}) {
  return Json::parse(output_of(arguments, std::move(options)));
}

/// The error line of a failing command; ignores output before it.
inline std::string error_of(const Arguments& arguments, ProcessOptions options = {}) {
  return error_line("attune", run(arguments, std::move(options)));
}

/// Checks that each command fails with "attune: TEXT"; a final "..." matches any rest.
inline void check_refused(const std::vector<std::pair<Arguments, std::string>>& cases) {
  for (const auto& [arguments, error] : cases) {
    CAPTURE_BINDING(error);
    const std::string line = error_of(arguments), begin = error.substr(0, error.rfind("..."));
    CHECK_MESSAGE(
        (begin == error ? line == "attune: " + error : line.starts_with("attune: " + begin)), line);
  }
}

/// Options of a small model with the defaults for sentences.
inline const Arguments small = {
    "--tokens",    "words",    "--embedding",      "16",   "--hidden",  "32",
    "--attention", "16",       "--dropout",        "0",    "--batch",   "16",
    "--bleu",      "none",     "--metric",         "bleu", "--average", "0",
    "--schedule",  "constant", "--validate-every", "500"};
/// The arguments without an option and its value.
inline Arguments without(Arguments all, const std::string& option) {
  const auto at = std::ranges::find(all, option);
  all.erase(at, at + 2);
  return all;
}
inline const Arguments tiny =
    small + Arguments{"--encoder-layers", "1", "--readout", "16", "--max-tokens", "100"};
inline const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};

/// WORD TAB PHONES. Words consist of syllables; "sh" is one phone, a final "e" is silent.
inline std::string word(std::mt19937& random, bool swapped) {
  static const std::vector<std::pair<std::string, std::string>> onsets = {{"b", "b"},
                                                                          {"t", "t"},
                                                                          {"sh", "ʃ"},
                                                                          {"m", "m"}},
                                                                rimes = {{"a", "aː"},
                                                                         {"i", "i"},
                                                                         {"é", "e"}};
  std::string letters, phones;
  for (unsigned n = 1 + random() % 3; n > 0; --n) {
    for (const auto* parts : {&onsets, &rimes}) {
      const auto& [letter, phone] = (*parts)[random() % parts->size()];
      letters += letter, phones += (phones.empty() ? "" : " ") + phone;
    }
  }
  if (random() % 2) letters += "e";
  return swapped ? phones + "\t" + letters : letters + "\t" + phones;
}
inline std::string words(int count, unsigned seed, bool swapped = false) {
  std::mt19937 random(seed);
  std::string lines;
  for (int i = 0; i < count; ++i) lines += word(random, swapped) + "\n";
  return lines;
}

/// A directory with words and their phones.
struct Words : Directory {
  Words() {
    write(*this / "train.tsv", words(400, 1));
    write(*this / "valid.tsv", words(40, 2));
  }
  Arguments train(const std::string& out, const Arguments& more) const {
    return Arguments{"train", *this / "train.tsv", "--valid", *this / "valid.tsv",
                     "--out", *this / out} +
           more;
  }
};
inline const Arguments tiny_words = {"--hidden",         "16", "--embedding", "8",
                                     "--attention",      "16", "--readout",   "16",
                                     "--encoder-layers", "1",  "--batch",     "16"};
inline const Arguments twenty_steps =
    tiny_words + Arguments{"--steps", "20", "--validate-every", "10"};
/// A training that is long enough to be interrupted, with many checkpoints.
inline const Arguments long_run =
    tiny_words + Arguments{"--steps", "400", "--validate-every", "20"};

/// The result of an uninterrupted run.
struct Whole : Words {
  Whole() { output_of(train("whole", long_run)); }
  static std::string path() {
    static const Whole trained;
    return trained / "whole";
  }
};

/// A model of the toy language, trained on first use.
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
  Arguments with(const std::string& command, const Arguments& more = {}) const {
    return Arguments{command, "--model", model()} + more;
  }
  /// Its metrics on the validation pairs.
  Json measured(const Arguments& more = {}) const {
    return json_of(
        with("evaluate", {"--json", "--bleu", "none", *this / "valid.en", *this / "valid.xx"}) +
        more);
  }
};

/// Its predictions for some lines.
inline std::string translated(const std::string& lines, const Arguments& more = {}) {
  return output_of(Trained::get().with("predict", {"--format", "text"}) + more, {.input = lines});
}

/// A smaller model, trained for one epoch on first use.
struct Short : Corpus {
  Short() { output_of(train("short", tiny + Arguments{"--hidden", "24", "--epochs", "1"})); }
  static const Short& get() {
    static const Short trained;
    return trained;
  }
};

/// A model of words and phones, trained on first use.
struct TrainedWords : Words {
  TrainedWords() {
    printed = output_of(
        train("model", {"--hidden",          "32",  "--embedding",      "16", "--attention", "32",
                        "--readout",         "32",  "--encoder-layers", "1",  "--dropout",   "0",
                        "--label-smoothing", "0",   "--batch",          "32", "--rate",      "0.01",
                        "--steps",           "400", "--validate-every", "100"}));
  }
  static const TrainedWords& get() {
    static const TrainedWords trained;
    return trained;
  }
  Arguments with(const std::string& command, const Arguments& more = {}) const {
    return Arguments{command, "--model", *this / "model"} + more;
  }
  std::string printed;
};

}  // namespace attune::pairs::test
