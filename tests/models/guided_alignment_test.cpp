#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/by_name.hpp>
#include <attune/models/loss.hpp>
#include <attune/tensor/errors.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace attune::models {
namespace {

using test::force;
using Links = text::Alignment;
using Values = std::vector<double>;

constexpr Vocabularies kSizes{.source = 9, .target = 8};

ModelOptions sized(const std::string& text) {
  return test::options_from(text, "embedding=3 hidden=4 attention=6 heads=2 readout=5");
}

/// Sources of 2, 4 and 1 words, targets of 3, 0 and 1.
text::Batch ragged_batch() { return text::make_batch(test::ragged_pairs(9, 8, 3)); }
const std::vector<Links> ragged_links = {{{0, 0}, {1, 0}, {1, 2}}, {}, {{0, 0}}};

TEST_CASE("token_links: links all tokens of two linked words") {
  const std::vector<int> source = {0, 0, -1, 1}, target = {-1, 0, 1, 1};
  Links links = token_links({{0, 1}, {1, 0}}, source, target);
  std::ranges::sort(links);
  CHECK(links == Links{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {3, 1}});
  CHECK(token_links({{0, 1}}, source, {}).empty());
}

TEST_CASE("alignment_guide: the links of a target token have equal weights") {
  const Tensor guide = alignment_guide(ragged_links, ragged_batch());
  REQUIRE(guide.shape() == Shape{4, 4, 3});
  CHECK(guide.dtype() == DType::f64);
  Values expected(48, 0);
  const auto at = [&](int t, int s, int b) -> double& {
    return expected[static_cast<std::size_t>((t * 4 + s) * 3 + b)];
  };
  at(0, 0, 0) = at(0, 1, 0) = 0.5;
  at(2, 1, 0) = at(0, 0, 2) = 1;
  CHECK(guide.to_vector<double>() == expected);
  // A set of links, in any order.
  CHECK(identical(
      alignment_guide({{{{1, 2}, {1, 0}, {0, 0}, {1, 2}}, {}, {{0, 0}}}}, ragged_batch()), guide));
}

TEST_CASE("alignment_guide: links to padding and to </s>, and another number of sentences") {
  const auto guide = [](std::vector<Links> links) { alignment_guide(links, ragged_batch()); };
  CHECK_ERROR("alignment_guide: 2 alignments, but 3 sentences", guide({{}, {}}));
  CHECK_ERROR("alignment_guide: sentence 0 has 2 and 3 tokens, but a link (2, 0)",
              guide({{{2, 0}}, {}, {}}));
  CHECK_ERROR("alignment_guide: sentence 2 has 1 and 1 tokens, but a link (0, 1)",
              guide({{}, {}, {{0, 1}}}));
  CHECK_THROWS_AS(guide({{{-1, 0}}, {}, {}}), Error);
}

TEST_CASE("guided_alignment_loss: mean cross-entropy of target tokens with links") {
  const Tensor guide = alignment_guide(ragged_links, ragged_batch());
  Values w;
  for (int i = 0; i < 48; ++i) w.push_back(0.02 * (i + 1));
  const Tensor weights = Tensor::of({4, 4, 3}, std::span<const double>(w));
  const auto log_weight = [&](int t, int s, int b) {
    return std::log(w[static_cast<std::size_t>((t * 4 + s) * 3 + b)]);
  };
  const double expected = -(0.5 * log_weight(0, 0, 0) + 0.5 * log_weight(0, 1, 0) +
                            log_weight(2, 1, 0) + log_weight(0, 0, 2)) /
                          3;
  CHECK(guided_alignment_loss(weights, guide).item() == doctest::Approx(expected).epsilon(1e-8));
  CHECK(guided_alignment_loss(zeros({4, 4, 3}, DType::f64), guide).item() ==
        doctest::Approx(10 * std::log(10)));
  CHECK(guided_alignment_loss(weights, zeros({4, 4, 3}, DType::f64)).item() == 0);
  CHECK_THROWS_AS(guided_alignment_loss(weights, zeros({4, 3, 3}, DType::f64)), Error);
}

TEST_CASE("loss: a guide adds its weight times guided_alignment_loss") {
  nn::Parameters params(4, DType::f64);
  const NamedModel model(params, sized("bahdanau"), kSizes);
  const text::Batch batch = ragged_batch();
  const Guide guide{alignment_guide(ragged_links, batch), 0.3};
  const double attention =
      guided_alignment_loss(force(model, batch).weights, guide.alignment).item();
  CHECK(models::loss(model, batch, {.guide = guide}).item() ==
        doctest::Approx(models::loss(model, batch).item() + 0.3 * attention).epsilon(1e-12));
  nn::Parameters others(4, DType::f64);
  CHECK_ERROR(
      "loss: a coverage loss or a guide requires a model with attention",
      models::loss(NamedModel(others, sized("sutskever"), kSizes), batch, {.guide = guide}));
}

TEST_CASE("loss: gradients with a guide are central differences") {
  const auto check = [](const std::string& text, double coverage = 0) {
    CAPTURE_BINDING(text);
    CHECK(test::gradcheck_off_kinks(11, 20, [&](std::uint64_t seed) {
      nn::Parameters params(seed, DType::f64);
      const NamedModel model(params, sized(text), kSizes);
      test::scale_parameters(params, 3);
      const text::Batch batch = ragged_batch();
      const Guide guide{alignment_guide(ragged_links, batch), 0.7};
      const auto loss = [&] {
        return models::loss(model, batch, {.coverage = coverage, .guide = guide});
      };
      return gradcheck(params, loss, {.step = 2e-4, .allow_zero = true});
    }));
  };
  for (const char* name : {"bahdanau", "luong", "nematus"}) check(name);
  check("bahdanau score=multi-head");
  check("luong window=local-m");
  check("bahdanau coverage=summed", 0.5);
}

}  // namespace
}  // namespace attune::models
