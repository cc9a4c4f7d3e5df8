#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/ctc.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

#include "nn/tools.hpp"
#include "support/ctc_readings.hpp"

namespace {

using namespace attune;
using models::CtcHypothesis;

/// Logits (T, B, V) whose largest at each frame is of the given symbols, one column a sentence.
Tensor peaked(const std::vector<std::vector<std::int32_t>>& frames, Index v) {
  std::vector<double> logits;
  for (const auto& row : frames) {
    for (const std::int32_t symbol : row) {
      for (Index i = 0; i < v; ++i) logits.push_back(i == symbol ? 1 : 0);
    }
  }
  return Tensor::of(Shape{std::ssize(frames), std::ssize(frames[0]), v},
                    std::span<const double>(logits));
}

TEST_CASE(
    "ctc_greedy: repeated symbols count once, but for those with a blank between, and padding "
    "not") {
  const Tensor logits = peaked({{3, 0}, {3, 1}, {0, 1}, {3, 2}, {1, 2}, {1, 3}}, 4);
  const auto read = models::ctc_greedy(logits, test::ragged_mask(6, {6, 4}));
  CHECK(read == std::vector<text::Sentence>{{3, 3, 1}, {1, 2}});
  CHECK(models::ctc_greedy(logits, ones({6, 2}, DType::f64), /*blank=*/3) ==
        std::vector<text::Sentence>{{0, 1}, {0, 1, 2}});
}

TEST_CASE(
    "ctc_search: with a beam for all prefixes it finds all readings, and what each is worth") {
  const Tensor logits =
      concat(std::vector{randn({5, 1, 3}, DType::f64), randn({5, 1, 3}, DType::f64, 2)}, 1);
  const auto found =
      models::ctc_search(logits, test::ragged_mask(5, {5, 3}), {.beam = 200, .best = 200});
  for (const auto& [column, frames] : {std::pair<Index, Index>{0, 5}, {1, 3}}) {
    const auto expected = test::readings(test::sentence(logits, column, frames));
    const std::vector<CtcHypothesis>& all = found[static_cast<std::size_t>(column)];
    CHECK(all.size() == expected.size());
    CHECK(std::ranges::is_sorted(all, std::ranges::greater(), &CtcHypothesis::log_probability));
    for (const CtcHypothesis& h : all)
      CHECK(std::exp(h.log_probability) == doctest::Approx(expected.at(h.labels)).epsilon(1e-12));
  }
}

TEST_CASE("ctc_search: it finds labels that are more likely than those of the best path") {
  // The blank is best at both frames, with 0.36 in all, but three paths lead to 1.
  const Tensor logits = log_softmax(
      Tensor::of<double>({2, 1, 2}, {std::log(0.6), std::log(0.4), std::log(0.6), std::log(0.4)}),
      -1);
  const Tensor mask = ones({2, 1}, DType::f64);
  CHECK(models::ctc_greedy(logits, mask)[0].empty());
  const CtcHypothesis best = models::ctc_search(logits, mask, {.beam = 2})[0][0];
  CHECK(best.labels == text::Sentence{1});
  CHECK(std::exp(best.log_probability) == doctest::Approx(0.64).epsilon(1e-12));
}

TEST_CASE("ctc_search: errors name what is wrong") {
  const Tensor logits = randn({2, 1, 3}, DType::f64), mask = ones({2, 1}, DType::f64);
  CHECK_THROWS_WITH_AS(models::ctc_search(logits, mask, {.beam = 2, .best = 3}),
                       "ctc: best is not in 1 to beam", Error);
  CHECK_THROWS_WITH_AS(models::ctc_search(logits * NAN, mask), "ctc: a logit is NaN", Error);
  CHECK_THROWS_WITH_AS(models::ctc_greedy(logits, mask, 3), "ctc: the blank, 3, is not in 0 to 2",
                       Error);
  CHECK_THROWS_WITH_AS(models::ctc_greedy(logits, ones({3, 1}, DType::f64)),
                       "ctc: mask (T, B) is (3, 1), but T = 2 in logits", Error);
}

}  // namespace
