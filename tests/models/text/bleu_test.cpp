#include <cmath>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/metrics.hpp>

#include "support/errors.hpp"

namespace {

using namespace attune::metrics;
using doctest::Approx;
using Lines = std::vector<std::string>;

double bleu_of(const std::string& hypothesis, const std::string& reference) {
  return corpus_bleu(Lines{hypothesis}, std::vector<References>{{reference}});
}

TEST_CASE("bleu: statistics can be added in parts") {
  const Lines hypotheses = {"the red boat", "a house on the hill", "blue sky"};
  const std::vector<References> references = {
      {"the red ship"}, {"the house on the hill"}, {"a blue sky"}};
  const auto all = bleu_statistics(hypotheses, references);
  BleuStatistics sum = all[0];
  sum += all[1];
  const std::vector<BleuStatistics> parts = {sum, all[2]};
  CHECK(bleu(parts) == bleu(all));
}

TEST_CASE("bleu and chrf: an empty reference has no tokens; none at all is an error") {
  const std::vector<References> several = {{"a b c d e f g", ""},
                                           {"the cat sat on a mat", "the cat is on the mat"}};
  // The empty one is the closer in length: c = 8, r = 6, and all n-grams but the 4-grams match.
  CHECK(corpus_bleu(Lines{"a b", "the cat sat on the mat"}, several) ==
        Approx(70.7107).epsilon(1e-5));
  const std::vector<References> one = {{""}, {"x y z w"}};
  const double product = 4.0 / 9 * 3 / 7 * 2 / 5 * 1 / 3;
  CHECK(corpus_bleu(Lines{"a b c d e", "x y z w"}, one) == Approx(100 * std::pow(product, 0.25)));
  CHECK(corpus_chrf(Lines{"a b", "x y z w"}, one) == Approx(100));
  CHECK(bleu_of("a", "") == 0);
  CHECK_ERROR("bleu: a sentence has no reference",
              corpus_bleu(Lines{"a"}, std::vector<References>{{}}));
  CHECK_ERROR("chrf: a sentence has no reference",
              corpus_chrf(Lines{"a"}, std::vector<References>{{}}));
}

TEST_CASE("bleu and chrf: unequal numbers of hypotheses and references are errors") {
  const std::vector<References> one = {{"a"}};
  CHECK_ERROR("bleu: 2 hypotheses, but references of 1 sentences",
              corpus_bleu(Lines{"a", "b"}, one));
  CHECK_ERROR("chrf: 0 hypotheses, but references of 1 sentences", corpus_chrf(Lines{}, one));
}

TEST_CASE("bleu and chrf: a corpus without sentences scores 0") {
  CHECK(corpus_bleu(Lines{}, std::vector<References>{}) == 0);
  CHECK(corpus_chrf(Lines{}, std::vector<References>{}) == 0);
}

TEST_CASE("bleu and chrf: a line of 100,000 words") {
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += "w" + std::to_string(i % 1000) + " ";
  CHECK(bleu_of(line, line) == Approx(100));
  CHECK(corpus_chrf(Lines{line}, std::vector<References>{{line}}) == Approx(100));
}

using nlohmann::json;

/// A corpus of bleu.json with the results of Python.
struct Corpus {
  json entry;
  Lines hypotheses;
  std::vector<References> references;
};

std::vector<Corpus> corpora() {
  std::ifstream file(std::string(ATTUNE_GOLDEN) + "/bleu.json");
  REQUIRE(file);
  std::vector<Corpus> all;
  for (const json& entry : json::parse(file)) {
    all.push_back({entry, entry["hypotheses"].get<Lines>(),
                   entry["references"].get<std::vector<References>>()});
  }
  REQUIRE(all.size() > 10);
  return all;
}

doctest::Approx close_to(const json& number) {
  return doctest::Approx(number.get<double>()).epsilon(1e-11);
}

TEST_CASE("tokenize_13a: equal to Python's regular expressions") {
  for (const Corpus& corpus : corpora()) {
    for (std::size_t i = 0; i < corpus.hypotheses.size(); ++i) {
      INFO(corpus.hypotheses[i]);
      CHECK(tokenize_13a(corpus.hypotheses[i]) == corpus.entry["tokens"][i].get<Lines>());
    }
  }
}

TEST_CASE("bleu: counts and scores equal Python's") {
  for (const Corpus& corpus : corpora()) {
    CAPTURE(corpus.entry["name"]);
    for (const json& expected : corpus.entry["bleu"]) {
      const auto tokens =
          expected["tokenization"] == "13a" ? BleuTokens::mteval_13a : BleuTokens::none;
      BleuStatistics sum;
      for (const auto& s : bleu_statistics(corpus.hypotheses, corpus.references, tokens)) sum += s;
      std::vector<std::int64_t> counts = {sum.length, sum.reference_length};
      counts.insert(counts.end(), sum.matches.begin(), sum.matches.end());
      counts.insert(counts.end(), sum.ngrams.begin(), sum.ngrams.end());
      CHECK(counts == expected["statistics"].get<std::vector<std::int64_t>>());
      CHECK(corpus_bleu(corpus.hypotheses, corpus.references, tokens) ==
            close_to(expected["bleu"]));
    }
  }
}

TEST_CASE("chrf: scores of corpora and sentences equal Python's") {
  for (const Corpus& corpus : corpora()) {
    CAPTURE(corpus.entry["name"]);
    CHECK(corpus_chrf(corpus.hypotheses, corpus.references) == close_to(corpus.entry["chrf"]));
    for (std::size_t i = 0; i < corpus.hypotheses.size(); ++i)
      CHECK(corpus_chrf({&corpus.hypotheses[i], 1}, {&corpus.references[i], 1}) ==
            close_to(corpus.entry["sentences"][i]));
  }
}

}  // namespace
