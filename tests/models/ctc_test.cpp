#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/ctc.hpp>
#include <attune/models/search.hpp>
#include <attune/tensor/arrange.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/ctc_readings.hpp"
#include "support/errors.hpp"

namespace {

using namespace attune;
using models::CtcHypothesis;

TEST_CASE(
    "ctc_search: with a beam for all prefixes it finds all readings, and what each is worth") {
  const Tensor logits =
      concat(std::vector{randn({5, 1, 3}, DType::f64), randn({5, 1, 3}, DType::f64, 2)}, 1);
  const auto found = models::ctc_search(logits, mask_of(5, {5, 3}), {.beam = 200, .best = 200});
  for (const auto& [column, frames] : {std::pair<Index, Index>{0, 5}, {1, 3}}) {
    const auto expected = test::readings(test::sentence(logits, column, frames));
    const std::vector<CtcHypothesis>& all = found[static_cast<std::size_t>(column)];
    CHECK(all.size() == expected.size());
    CHECK(std::ranges::is_sorted(all, std::ranges::greater(), &CtcHypothesis::log_probability));
    for (const CtcHypothesis& h : all)
      CHECK(std::exp(h.log_probability) == doctest::Approx(expected.at(h.labels)).epsilon(1e-12));
  }
}

TEST_CASE("ctc_search: finds labels more probable than those of the best path") {
  // The blank is best at both frames, with 0.36 in all, but three paths lead to 1.
  const Tensor logits = log_softmax(
      Tensor::of<double>({2, 1, 2}, {std::log(0.6), std::log(0.4), std::log(0.6), std::log(0.4)}),
      -1);
  const Tensor mask = ones({2, 1}, DType::f64);
  const CtcHypothesis best = models::ctc_search(logits, mask, {.beam = 2})[0][0];
  CHECK(best.labels == text::Sentence{1});
  CHECK(std::exp(best.log_probability) == doctest::Approx(0.64).epsilon(1e-12));
}

TEST_CASE("ctc_search: errors name what is wrong") {
  const Tensor logits = randn({2, 1, 3}, DType::f64), mask = ones({2, 1}, DType::f64);
  CHECK_ERROR("ctc: best = 3 is not in 1 to beam = 2",
              models::ctc_search(logits, mask, {.beam = 2, .best = 3}));
  CHECK_ERROR("ctc: a logit is NaN or inf", models::ctc_search(logits * NAN, mask));
  const Tensor last = one_hot(full({2, 1}, 2, DType::i32), 3, DType::f64);
  CHECK_ERROR("ctc: a logit is NaN or inf",
              models::ctc_search(where(last, full({}, INFINITY, DType::f64), logits), mask));
  CHECK_ERROR("ctc: all logits of step 0 are -inf",
              models::ctc_search(full({2, 1, 3}, -INFINITY), mask.to(DType::f32)));
  CHECK_ERROR("ctc: the blank, 3, is not in 0 to 2",
              models::ctc_search(logits, mask, {.blank = 3}));
  CHECK_ERROR("ctc: mask (T, B) is (3, 1), but T = 2 in logits",
              models::ctc_search(logits, ones({3, 1}, DType::f64)));
}

using models::CtcPrefix;
using models::JointCtc;
using namespace test;

static_assert(models::Decoder<JointCtc>);

/// Logits of frames (T, B, 6) at which neither <s> nor </s> is likely.
Tensor frames(Index steps, Index batch, std::uint64_t seed) {
  Tensor logits = randn({steps, batch, kVocabulary}, DType::f64, seed);
  for (Index i = 0; i < steps * batch; ++i) {
    double* row = logits.mutable_data<double>() + i * kVocabulary;
    row[text::Vocabulary::begin] = row[kEnd] = -1e9;
  }
  return logits;
}

/// The empty prefix of a sentence alone, logits (T, 1, V).
CtcPrefix no_labels(const Tensor& logits, const models::JointCtcOptions& options = {}) {
  return {log_softmax(logits.reshape({logits.dim(0), logits.dim(2)}), -1), options};
}

/// A decoder with a constant distribution.
Probabilities certain(std::int32_t, const Words&) { return {0, 0, 0, 0, 1, 0}; }

TEST_CASE("CtcPrefix: next is the conditional probability of each label") {
  const Tensor logits = frames(4, 1, 1);
  const auto all = readings(logits);
  const auto share = [&](const Words& prefix, bool whole) {
    double total = 0;
    for (const auto& [labels, p] : all) {
      const bool begins = labels.size() >= prefix.size() &&
                          std::equal(prefix.begin(), prefix.end(), labels.begin());
      if (whole ? labels == prefix : begins) total += p;
    }
    return total;
  };
  for (const Words& prefix : {Words{}, {3}, {4, 4}, {5, 3, 5}}) {
    CtcPrefix at = no_labels(logits);
    for (const std::int32_t label : prefix) at = at.extended(label);
    const std::vector<double> next = at.next();
    CHECK_ERROR("CtcPrefix: label 6 is not one of the 6 symbols, from 0", at.extended(6));
    CHECK_ERROR("CtcPrefix: label -1 is not one of the 6 symbols, from 0", at.extended(-1));
    CHECK(std::exp(next[0]) == 0);
    CHECK(std::exp(next[text::Vocabulary::begin]) == 0);
    CHECK(std::exp(next[kEnd]) == doctest::Approx(share(prefix, true) / share(prefix, false)));
    for (std::int32_t v = 3; v < kVocabulary; ++v) {
      Words longer = prefix;
      longer.push_back(v);
      CHECK(std::exp(next[v]) == doctest::Approx(share(longer, false) / share(prefix, false)));
    }
  }
}

TEST_CASE("JointCtc: with weight 1 a search finds the labels of CTC, also in a batch") {
  const TableDecoder table(certain);
  const JointCtc joint(table, {.weight = 1});
  const Tensor logits = frames(4, 2, 2), mask = mask_of(4, {4, 3});
  const Tensor source = Tensor::of<std::int32_t>({4, 2}, {4, 5, 3, 3, 3, 3, 3, 0});
  const models::CtcEncoded encoded{table.encode(source, mask), logits};
  const auto found = models::search(joint, encoded, {.beam = 40, .output_tokens = test::kAll});
  for (const auto& [column, length] : {std::pair<Index, Index>{0, 4}, {1, 3}}) {
    const auto all = readings(sentence(logits, column, length));
    const auto best =
        std::ranges::max_element(all, {}, [](const auto& reading) { return reading.second; });
    const Hypothesis& h = found[static_cast<std::size_t>(column)][0];
    CHECK(h.words == best->first);
    CHECK(std::exp(h.log_probability) == doctest::Approx(best->second));
  }
}

TEST_CASE("JointCtc: log-probabilities are averaged with weights") {
  const Probabilities p{0.05, 0.05, 0.1, 0.2, 0.25, 0.35};
  const TableDecoder table([&](std::int32_t, const Words&) { return p; });
  const JointCtc joint(table, {.weight = 0.3});
  const Tensor logits = frames(4, 1, 3), mask = ones({4, 1}, DType::f64);
  const Tensor source = Tensor::of<std::int32_t>({4, 1}, {4, 3, 3, 3});
  const auto state = joint.start(models::CtcEncoded{table.encode(source, mask), logits});
  const auto words = joint.read(Tensor::of<std::int32_t>({1, 1}, {text::Vocabulary::begin}));
  const auto step = joint.step(words[0], state);
  const std::vector<double> ctc = no_labels(logits).next(),
                            joined = joint.logits(words, {step.output}).value().to_vector<double>();
  for (std::size_t v = 2; v < p.size(); ++v)
    CHECK(joined[v] == doctest::Approx(0.7 * std::log(p[v]) + 0.3 * ctc[v]));
  CHECK_ERROR("CtcPrefix: the end, 6, is not in 0 to 5", no_labels(logits, {.end = 6}));
  CHECK_ERROR("CtcPrefix: a log-probability is NaN", no_labels(logits * NAN));
  CHECK_ERROR("CtcPrefix: the blank, -1, is not in 0 to 2",
              models::CtcPrefix(zeros({2, 3}, DType::f64), {.blank = -1}));
  CHECK_ERROR("JointCtc: the weight is not in (0, 1]", JointCtc(table, {.weight = 0}));
}

}  // namespace
