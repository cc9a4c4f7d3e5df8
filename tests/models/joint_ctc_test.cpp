#include <algorithm>

#include <doctest/doctest.h>

#include <attune/models/joint_ctc.hpp>
#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/ctc_readings.hpp"

namespace {

using namespace attune;
using models::CtcPrefix;
using models::JointCtc;
using namespace test;
using Joint = JointCtc<TableDecoder>;

static_assert(models::Decoder<Joint>);

/// Logits of frames (T, B, 6) at which neither <s> nor </s> is likely.
Tensor frames(Index steps, Index batch, std::uint64_t seed) {
  Tensor logits = randn({steps, batch, kVocabulary}, DType::f64, seed);
  for (Index i = 0; i < steps * batch; ++i) {
    double* row = logits.mutable_data<double>() + i * kVocabulary;
    row[text::Vocabulary::begin] = row[kEnd] = -1e9;
  }
  return logits;
}

/// The same word for ever.
Probabilities certain(std::int32_t, const Words&) { return {0, 0, 0, 0, 1, 0}; }

TEST_CASE("CtcPrefix: what comes next is the share of the readings that begin so") {
  const Tensor logits = frames(4, 1, 1), mask = ones({4, 1}, DType::f64);
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
    CtcPrefix at = models::detail::ctc_prefixes(logits, mask, {})[0];
    for (const std::int32_t label : prefix) at = at.extended(label);
    const std::vector<double> next = at.next();
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

TEST_CASE("JointCtc: with all the weight on CTC a search finds what CTC reads, in a batch too") {
  const TableDecoder table(certain);
  const Joint joint(table, {.weight = 1});
  const Tensor logits = frames(4, 2, 2), mask = ragged_mask(4, {4, 3});
  const Tensor source = Tensor::of<std::int32_t>({4, 2}, {4, 5, 3, 3, 3, 3, 3, 0});
  const models::CtcEncoded<TableDecoder::Source> encoded{table.encode(source, mask), mask, logits};
  const auto found = models::search(joint, encoded, {.beam = 40});
  for (const auto& [column, length] : {std::pair<Index, Index>{0, 4}, {1, 3}}) {
    const auto all = readings(sentence(logits, column, length));
    const auto best =
        std::ranges::max_element(all, {}, [](const auto& reading) { return reading.second; });
    const Hypothesis& h = found[static_cast<std::size_t>(column)][0];
    CHECK(h.words == best->first);
    CHECK(std::exp(h.log_probability) == doctest::Approx(best->second));
  }
}

TEST_CASE("JointCtc: probabilities are weighted in the logarithm") {
  const Probabilities p{0.05, 0.05, 0.1, 0.2, 0.25, 0.35};
  const TableDecoder table([&](std::int32_t, const Words&) { return p; });
  const Joint joint(table, {.weight = 0.3});
  const Tensor logits = frames(4, 1, 3), mask = ones({4, 1}, DType::f64);
  const Tensor source = Tensor::of<std::int32_t>({4, 1}, {4, 3, 3, 3});
  const auto state = joint.start(
      models::CtcEncoded<TableDecoder::Source>{table.encode(source, mask), mask, logits});
  const auto words = joint.read(Tensor::of<std::int32_t>({1, 1}, {text::Vocabulary::begin}));
  const auto step = joint.step(words[0], state);
  const std::vector<double> ctc = models::detail::ctc_prefixes(logits, mask, {})[0].next(),
                            joined = joint.logits(words, {step.output}).value().to_vector<double>();
  for (std::size_t v = 2; v < p.size(); ++v)
    CHECK(joined[v] == doctest::Approx(0.7 * std::log(p[v]) + 0.3 * ctc[v]));
  CHECK_THROWS_WITH_AS(models::detail::ctc_prefixes(logits, mask, {.end = 6}),
                       "JointCtc: the blank, begin or end 6 is not in 0 to 5", Error);
  CHECK_THROWS_WITH_AS(Joint(table, {.weight = 0}), "JointCtc: the weight is not in (0, 1]", Error);
}

}  // namespace
