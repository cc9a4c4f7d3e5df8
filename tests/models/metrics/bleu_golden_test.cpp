// BLEU and chrF against tests/golden/make_bleu.py.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/metrics/chrf.hpp>

namespace {

using namespace attune::metrics;
using nlohmann::json;

/// A corpus of bleu.json, and what Python made of it.
struct Corpus {
  explicit Corpus(const json& entry)
      : entry(entry),
        hypotheses(entry["hypotheses"].get<std::vector<std::string>>()),
        references(entry["references"].get<std::vector<References>>()) {}
  json entry;
  std::vector<std::string> hypotheses;
  std::vector<References> references;
};

std::vector<Corpus> corpora() {
  std::ifstream file(std::string(ATTUNE_GOLDEN) + "/bleu.json");
  REQUIRE(file);
  std::vector<Corpus> all;
  for (const json& entry : json::parse(file)) all.emplace_back(entry);
  REQUIRE(all.size() > 10);
  return all;
}

doctest::Approx close_to(const json& number) {
  return doctest::Approx(number.get<double>()).epsilon(1e-11);
}

BleuOptions bleu_options(const json& setting) {
  return {.tokens = setting["tokenization"] == "13a" ? BleuTokens::mteval_13a : BleuTokens::none,
          .smooth = setting["smooth"]};
}

TEST_CASE("tokenize_13a: the same tokens as Python's regular expressions find") {
  for (const Corpus& corpus : corpora()) {
    for (std::size_t i = 0; i < corpus.hypotheses.size(); ++i) {
      INFO(corpus.hypotheses[i]);
      CHECK(tokenize_13a(corpus.hypotheses[i]) ==
            corpus.entry["tokens"][i].get<std::vector<std::string>>());
    }
  }
}

TEST_CASE("bleu_statistics: the same counts as in Python") {
  for (const Corpus& corpus : corpora()) {
    for (const json& expected : corpus.entry["bleu"]) {
      if (expected["lower_case"]) continue;
      CAPTURE(corpus.entry["name"]);
      BleuStatistics sum;
      for (const BleuStatistics& s :
           bleu_statistics(corpus.hypotheses, corpus.references, bleu_options(expected)))
        sum += s;
      std::vector<std::int64_t> counts = {sum.length, sum.reference_length};
      counts.insert(counts.end(), sum.matches.begin(), sum.matches.end());
      counts.insert(counts.end(), sum.ngrams.begin(), sum.ngrams.end());
      CHECK(counts == expected["statistics"].get<std::vector<std::int64_t>>());
    }
  }
}

TEST_CASE("corpus_bleu: the same score, precisions and brevity penalty as in Python") {
  for (const Corpus& corpus : corpora()) {
    for (const json& expected : corpus.entry["bleu"]) {
      if (expected["lower_case"]) continue;
      CAPTURE(corpus.entry["name"]);
      const BleuScore score =
          corpus_bleu(corpus.hypotheses, corpus.references, bleu_options(expected));
      CHECK(score.bleu == close_to(expected["bleu"]));
      CHECK(score.brevity_penalty == close_to(expected["brevity_penalty"]));
      for (std::size_t n = 0; n < 4; ++n)
        CHECK(score.precisions[n] == close_to(expected["precisions"][n]));
    }
  }
}

TEST_CASE("sentence_bleu: the same scores as in Python") {
  for (const Corpus& corpus : corpora()) {
    for (const json& expected : corpus.entry["bleu"]) {
      if (expected["lower_case"]) continue;
      for (std::size_t i = 0; i < corpus.hypotheses.size(); ++i) {
        CAPTURE(corpus.hypotheses[i]);
        CHECK(sentence_bleu(corpus.hypotheses[i], corpus.references[i], bleu_options(expected))
                  .bleu == close_to(expected["sentences"][i]));
      }
    }
  }
}

TEST_CASE("chrf: the same scores of corpora and sentences as in Python") {
  for (const Corpus& corpus : corpora()) {
    for (const json& expected : corpus.entry["chrf"]) {
      if (expected["lower_case"]) continue;
      CAPTURE(corpus.entry["name"]);
      const ChrfOptions options = {.words = expected["words"], .beta = expected["beta"]};
      CHECK(corpus_chrf(corpus.hypotheses, corpus.references, options) ==
            close_to(expected["chrf"]));
      for (std::size_t i = 0; i < corpus.hypotheses.size(); ++i) {
        const ChrfStatistics sentence =
            chrf_statistics(corpus.hypotheses[i], corpus.references[i], options);
        CHECK(chrf(std::span(&sentence, 1), options) == close_to(expected["sentences"][i]));
      }
    }
  }
}

}  // namespace
