// Every score with every window: gradients, and what must hold of the weights.
#include <functional>
#include <limits>
#include <memory>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {
namespace {

constexpr Index kSteps = 7, kBatch = 3, kSize = 4, kAttention = 6, kLongest = 9;

/// A score by name; Q = D, so that those which compare directly fit too.
struct NamedScore {
  std::string name;
  std::function<std::shared_ptr<const Score>(const Scope&)> make;
};

std::vector<NamedScore> scores_without_coverage() {
  return {
      {"additive",
       [](const Scope& s) { return std::make_shared<AdditiveScore>(s, kSize, kSize, kAttention); }},
      {"dot", [](const Scope&) { return std::make_shared<DotScore>(); }},
      {"scaled dot", [](const Scope&) { return std::make_shared<ScaledDotScore>(); }},
      {"general", [](const Scope& s) { return std::make_shared<GeneralScore>(s, kSize, kSize); }},
      {"concat",
       [](const Scope& s) { return std::make_shared<ConcatScore>(s, kSize, kSize, kAttention); }},
      {"concat, identity",
       [](const Scope& s) {
         return std::make_shared<ConcatScore>(s, kSize, kSize, kSize,
                                              ConcatScoreOptions{ConcatForm::identity});
       }},
      {"location",
       [](const Scope& s) { return std::make_shared<LocationScore>(s, kSize, kLongest); }},
      {"cosine", [](const Scope& s) { return std::make_shared<CosineScore>(s, kSize); }},
      {"one head",
       [](const Scope& s) {
         return std::make_shared<MultiHeadScore>(s, kSize, kSize, kAttention, 1);
       }},
      {"two heads",
       [](const Scope& s) {
         return std::make_shared<MultiHeadScore>(s, kSize, kSize, kAttention, 2);
       }},
  };
}

/// All of them, and all of them with coverage.
std::vector<NamedScore> scores() {
  std::vector<NamedScore> all = scores_without_coverage();
  for (const NamedScore& score : scores_without_coverage()) {
    if (score.name == "additive" || score.name.starts_with("concat")) continue;
    all.push_back({score.name + ", coverage", [score](const Scope& s) {
                     return std::make_shared<CoveredScore>(s, score.make(s), kSize);
                   }});
  }
  all.push_back({"location-aware", [](const Scope& s) {
                   return std::make_shared<LocationAwareScore>(
                       s, kSize, kSize, kAttention,
                       LocationAwareScoreOptions{.filters = 2, .radius = 2});
                 }});
  all.push_back({"additive, coverage", [](const Scope& s) {
                   return std::make_shared<AdditiveScore>(s, kSize, kSize, kAttention,
                                                          Coverage::summed);
                 }});
  for (ConcatForm form : {ConcatForm::full, ConcatForm::identity}) {
    all.push_back({"concat, coverage", [form](const Scope& s) {
                     return std::make_shared<ConcatScore>(
                         s, kSize, kSize, kSize, ConcatScoreOptions{form, Coverage::summed});
                   }});
  }
  return all;
}

struct NamedWindow {
  std::string name;
  AttentionOptions options;
};

const std::vector<NamedWindow> windows = {
    {"global", {}},
    {"local-m", {Window::local_monotonic, 2}},
    {"local-p", {Window::local_predictive, 2}},
    {"local-p, wide", {Window::local_predictive, 10}},
    {"sparsemax", {Window::global, 10, Normalizer::sparsemax}},
    {"sigmoid", {Window::global, 10, Normalizer::sigmoid}},
    {"local-m, sparsemax", {Window::local_monotonic, 2, Normalizer::sparsemax}}};

/// Sentences of 7, 4 and 1 words.
Tensor ragged_mask() {
  Tensor mask = zeros({kSteps, kBatch}, DType::f64);
  const Index lengths[] = {7, 4, 1};
  for (Index t = 0; t < kSteps; ++t) {
    for (Index b = 0; b < kBatch; ++b) mask.mutable_data<double>()[t * kBatch + b] = t < lengths[b];
  }
  return mask;
}

/// An attention, its parameters, and a query and a memory to differentiate as well.
struct Setting {
  Parameters params{3, DType::f64};
  Attention attention;
  Var h, state, coverage, weights;
  Tensor mask = ragged_mask();

  Setting(const NamedScore& score, const NamedWindow& window)
      : attention(score.make(Scope(params) / "score"), params, kSize, window.options),
        h(params.add("h", {kSteps, kBatch, kSize}, init::normal(1))),
        state(params.add("state", {kBatch, kSize}, init::normal(1))),
        coverage(params.add("coverage", {kSteps, kBatch}, init::uniform(0, 2))),
        weights(params.add("weights", {kSteps, kBatch}, init::uniform(0, 0.3))) {
    if (!params.contains("score.w_c")) return;
    Tensor w_c = params["score.w_c"].value();  // so small at first that it would hide errors
    copy(w_c * 30.0, w_c);
  }

  Attended at(Index step) const { return at(step, coverage); }
  Attended at(Index step, const Var& seen) const {
    return attention({.state = state, .past = {step, seen, weights * mask}},
                     attention.remember(h, mask));
  }
};

template <class F>
void for_all(F f) {
  for (const NamedScore& score : scores()) {
    for (const NamedWindow& window : windows) {
      INFO(score.name << " x " << window.name);
      f(Setting(score, window), score.name, window.name);
    }
  }
}

void scale_parameters(const Parameters& params, double factor) {
  for (const auto& [name, w] : params) {
    if (name == "h" || name == "state" || name == "coverage" || name == "weights")
      continue;  // inputs
    Tensor values = w.value();
    for (Index i = 0; i < values.size(); ++i) values.mutable_data<double>()[i] *= factor;
  }
}

TEST_CASE("Attention: gradients of every score with every window are central differences") {
  for_all([](const Setting& s, const std::string&, const std::string&) {
    // Padding has no gradient, and local-m does not look at everything: zeros are in order.
    CHECK(gradcheck(s.params, [&] { return s.at(3).context; }, {.step = 2e-4, .allow_zero = true}));
    CHECK(gradcheck(s.params, [&] { return s.at(3).weights; }, {.step = 2e-4, .allow_zero = true}));
  });
}

TEST_CASE("Attention: and at ten times ordinary initial values of the parameters") {
  for_all([](const Setting& s, const std::string&, const std::string&) {
    scale_parameters(s.params, 10);
    CHECK(gradcheck(s.params, [&] { return s.at(2).context; }, {.step = 2e-4, .allow_zero = true}));
  });
}

TEST_CASE("Attention: weights are exactly 0 on padding and outside of the window") {
  for_all([](const Setting& s, const std::string&, const std::string& window) {
    for (Index step : {0, 3, 20}) {
      const Tensor weights = s.at(step).weights.value();
      const Tensor flat = weights.reshape({-1, kSteps, kBatch});
      const double* mask = s.mask.data<double>();
      for (Index head = 0; head < flat.dim(0); ++head) {
        const std::vector<double> w = flat[head].to_vector<double>();
        const Index lengths[] = {7, 4, 1};
        for (Index i = 0; i < kSteps * kBatch; ++i) {
          const Index place = i / kBatch, centre = std::min(step, lengths[i % kBatch] - 1);
          const bool outside = window == "local-m" && std::abs(place - centre) > 2;
          if (mask[i] == 0 || outside) CHECK(w[static_cast<std::size_t>(i)] == 0);
        }
      }
    }
  });
}

TEST_CASE("Attention: weights sum to 1, but for local-p, where the Gaussian takes some") {
  for_all([](const Setting& s, const std::string&, const std::string& window) {
    const Tensor weights = s.at(1).weights.value();
    for (double total : sum(weights, {-2}).to_vector<double>()) {
      if (window.starts_with("local-p")) {
        CHECK(total <= 1);
        CHECK(total > 0);
      } else {
        CHECK(total == doctest::Approx(1).epsilon(1e-12));
      }
    }
  });
}

TEST_CASE("Attention: a sentence in a padded batch is attended to as alone") {
  for_all([](const Setting& s, const std::string&, const std::string&) {
    const Attended all = s.at(2);
    const Index lengths[] = {7, 4, 1};
    for (Index b = 0; b < kBatch; ++b) {
      const Var h = slice(slice(s.h, 1, b, b + 1), 0, 0, lengths[b]),
                state = slice(s.state, 0, b, b + 1),
                coverage = slice(slice(s.coverage, 1, b, b + 1), 0, 0, lengths[b]),
                weights = slice(slice(s.weights, 1, b, b + 1), 0, 0, lengths[b]);
      const Attended alone =
          s.attention({.state = state, .past = {2, coverage, weights}},
                      s.attention.remember(h, ones({lengths[b], 1}, DType::f64)));
      const std::vector<double> expected = alone.context.value().to_vector<double>();
      const std::vector<double> actual = all.context.value()[b].to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
      }
    }
  });
}

TEST_CASE("Attention: a window that is wider than the source, however wide, is the source") {
  const NamedWindow wide{"local-m", {Window::local_monotonic, std::numeric_limits<Index>::max()}};
  for (const NamedScore& score : scores()) {
    INFO(score.name);
    CHECK(Setting(score, wide).at(0).weights.value().to_vector<double>() ==
          Setting(score, windows[0]).at(0).weights.value().to_vector<double>());
  }
}

TEST_CASE("Attention: a window as wide as the source is global attention under a Gaussian") {
  // Equation 10 of Luong et al. (2015), written out from the global weights.
  for (const NamedScore& score : scores()) {
    INFO(score.name);
    const Setting global(score, windows[0]), local(score, windows[3]);
    const Tensor w = global.at(0).weights.value().reshape({-1, kSteps, kBatch});
    const Tensor actual = local.at(0).weights.value().reshape({-1, kSteps, kBatch});
    const Var logit =
        sum(tanh(matmul(local.state, local.params["W_p"])) * local.params["v_p"], {-1});
    const std::vector<double> z = logit.value().to_vector<double>();
    const double lengths[] = {7, 4, 1};
    for (Index head = 0; head < w.dim(0); ++head) {
      for (Index i = 0; i < kSteps * kBatch; ++i) {
        const auto b = static_cast<std::size_t>(i % kBatch);
        const double p = lengths[b] / (1 + std::exp(-z[b])),
                     distance = static_cast<double>(i / kBatch) - p;
        const double expected = w[head].to_vector<double>()[static_cast<std::size_t>(i)] *
                                std::exp(-distance * distance / (2 * 5.0 * 5.0));
        CHECK(actual[head].to_vector<double>()[static_cast<std::size_t>(i)] ==
              doctest::Approx(expected).epsilon(1e-12));
      }
    }
  }
}

double largest_difference(const Attended& a, const Attended& b) {
  double largest = 0;
  for (double d : abs(a.weights - b.weights).value().to_vector<double>())
    largest = std::max(largest, d);
  return largest;
}

TEST_CASE("Attention: the coverage matters to scores with coverage, and to no others") {
  for_all([](const Setting& s, const std::string& score, const std::string&) {
    const double difference = largest_difference(s.at(2), s.at(2, 2.0 * s.coverage));
    CHECK((difference > 1e-9) == score.ends_with(", coverage"));
  });
}

TEST_CASE("Attention: a coverage that is not there yet is one of zeros") {
  for_all([](const Setting& s, const std::string&, const std::string&) {
    CHECK(largest_difference(s.at(0, {}), s.at(0, zeros({kSteps, kBatch}, DType::f64))) < 1e-15);
  });
}

TEST_CASE("Attention: a coverage of another shape is an error") {
  const Setting s(scores()[0], windows[1]);
  CHECK_THROWS_WITH_AS(s.at(0, ones({kSteps, 1}, DType::f64)),
                       "attention: coverage (S, B) is (7, 1), but B = 3 in mask, in score", Error);
}

TEST_CASE("Attention: the sigmoid's weights are its share of all places'") {
  Parameters params(1, DType::f64);
  const AdditiveScore score(params, kSize, kSize, kAttention);
  const Attention attention(std::make_shared<AdditiveScore>(score), params, kSize,
                            {.normalizer = Normalizer::sigmoid});
  const nn::Memory memory =
      attention.remember(randn({kSteps, kBatch, kSize}, DType::f64), ragged_mask());
  const Query query{.state = randn({kBatch, kSize}, DType::f64, 2)};
  const std::vector<double> scores = score(query, memory.keys).value().to_vector<double>(),
                            mask = memory.mask.to_vector<double>(),
                            actual = attention(query, memory).weights.value().to_vector<double>();
  for (std::size_t b = 0; b < kBatch; ++b) {
    double total = 0;
    for (std::size_t i = b; i < scores.size(); i += kBatch)
      total += mask[i] / (1 + std::exp(-scores[i]));
    for (std::size_t i = b; i < scores.size(); i += kBatch)
      CHECK(actual[i] ==
            doctest::Approx(mask[i] / (1 + std::exp(-scores[i])) / total).epsilon(1e-12));
  }
}

TEST_CASE(
    "Attention: the sigmoid's weights are finite for scores far below 0, and 0 without a place") {
  Parameters params(1);
  const Attention attention(std::make_shared<DotScore>(), params, 1,
                            {.normalizer = Normalizer::sigmoid});
  const Tensor h = Tensor::of<float>({2, 2, 1}, {-200, 1, -200, 1}),
               mask = Tensor::of<float>({2, 2}, {1, 0, 1, 0});
  const Tensor w = attention({.state = ones({2, 1})}, attention.remember(h, mask)).weights.value();
  CHECK(w.to_vector<float>() == std::vector<float>{0.5, 0, 0.5, 0});
}

TEST_CASE("ConcatScore: it is the additive score with W_a in two parts") {
  Parameters a(1, DType::f64), b(2, DType::f64);
  const AdditiveScore additive(a, kSize, 5, kAttention);
  const ConcatScore concat(b, kSize, 5, kAttention);
  Tensor W_a = b["W_a"].value(), v_a = b["v_a"].value();
  Tensor upper = W_a.slice(0, kSize), lower = W_a.slice(kSize, kSize + 5);
  copy(a["W_a"].value(), upper);
  copy(a["U_a"].value(), lower);
  copy(a["v_a"].value(), v_a);
  const Tensor h = randn({kSteps, kBatch, 5}, DType::f64),
               s = randn({kBatch, kSize}, DType::f64, 2), mask = ragged_mask();
  const std::vector<double> expected =
      additive({.state = s}, additive.keys(h, mask)).value().to_vector<double>();
  const std::vector<double> actual =
      concat({.state = s}, concat.keys(h, mask)).value().to_vector<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-13));
  }
}

TEST_CASE("Scores: sizes that do not fit are named") {
  Parameters params(1, DType::f64);
  CHECK_THROWS_WITH_AS(ConcatScore(params, 4, 5, 6, {ConcatForm::identity}),
                       "ConcatScore: with the form identity a memory of 5 needs an attention of 5, "
                       "not 6",
                       Error);
  CHECK_THROWS_WITH_AS(MultiHeadScore(params, 4, 6, 8, 4),
                       "MultiHeadScore: 4 heads do not divide an attention of 8 and a memory of 6",
                       Error);
  const LocationScore location(Scope(params) / "l", 4, 3);
  CHECK_THROWS_WITH_AS(location.keys(randn({5, 2, 4}, DType::f64), ones({5, 2}, DType::f64)),
                       "LocationScore: the source has 5 places, but W_a (4, 3) has columns for 3",
                       Error);
  const DotScore dot;
  const Keys keys = dot.keys(randn({5, 2, 4}, DType::f64), ones({5, 2}, DType::f64));
  CHECK_THROWS_WITH_AS(dot({.state = randn({2, 3}, DType::f64)}, keys),
                       "dot_scores: k (S, B, A) is (5, 2, 4), but A = 3 in q", Error);
  CHECK_THROWS_WITH_AS(Attention(Scope(params) / "w", DotScore(), 4, {Window::local_monotonic, 0}),
                       "Attention: half_width = 0 is less than 1", Error);
}

}  // namespace
}  // namespace attune::nn
