// Every score with every window, and the properties of attention.
#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/attention.hpp>

#include "nn/tools.hpp"
#include "support/golden.hpp"

namespace attune::nn {
namespace {

constexpr Index kSteps = 7, kBatch = 3, kSize = 4;
const std::vector<Index> kLengths = {7, 4, 1};
const Tensor mask = mask_of(kSteps, kLengths);

/// Q = D, as `direct` scores require.
std::vector<ScoreOptions> scores() {
  std::vector<ScoreOptions> all;
  for (const Coverage coverage : {Coverage::none, Coverage::summed}) {
    ScoreOptions o{.attention = 6, .heads = 2, .longest = 9, .coverage = coverage};
    o.filters = 2, o.radius = 2;
    for (const ScoreKind& kind : score_kinds()) {
      o.kind = kind.name;
      all.push_back(o);
    }
    o.heads = 1;
    o.concat = ConcatForm::identity;
    for (const char* kind : {"multi_head", "concat"}) {
      o.kind = kind;
      all.push_back(o);
    }
  }
  return all;
}

const std::vector<AttentionOptions> windows = {
    {},
    {.normalizer = "sparsemax"},
    {.window = Window::local_monotonic, .half_width = 2},
    {.window = Window::local_monotonic, .half_width = 2, .normalizer = "sparsemax"},
    {.window = Window::local_predictive, .half_width = 2},
    {.window = Window::local_predictive, .half_width = 10}};

/// An attention, its parameters, and a query and a memory to differentiate as well.
struct Setting {
  ScoreOptions score;
  AttentionOptions window;
  Parameters params{3, DType::f64};
  Attention attention{make_score(params / "score", kSize, kSize, score), params, kSize, window};
  Var h = params.add("h", {kSteps, kBatch, kSize}, init::normal(1)),
      state = params.add("state", {kBatch, kSize}, init::normal(1)),
      coverage = params.add("coverage", {kSteps, kBatch}, init::uniform(0, 2)),
      weights = params.add("weights", {kSteps, kBatch}, init::uniform(0, 0.3));

  Setting(const ScoreOptions& score_options, const AttentionOptions& options)
      : score(score_options), window(options) {
    if (score.coverage == Coverage::none) return;
    Tensor w_c = params["score.w_c"].value();  // so small at first that it would hide errors
    copy(w_c * 30.0, w_c);
  }

  AttentionResult at(Index step) const { return at(step, coverage); }
  AttentionResult at(Index step, const Var& seen) const { return at(step, seen, h, mask); }
  AttentionResult at(Index step, const Var& seen, const Var& memory, const Tensor& used) const {
    return attention({.state = state, .past = {step, seen, weights * mask}},
                     attention.precompute(memory, used));
  }
};

template <class F>
void for_all(F f) {
  for (const ScoreOptions& score : scores()) {
    for (const AttentionOptions& window : windows) {
      INFO(score.kind, ", coverage ", static_cast<int>(score.coverage), ", window ",
           static_cast<int>(window.window), ", normalizer ", window.normalizer);
      f(Setting(score, window));
    }
  }
}

/// Numbers of tests/golden/make_attention.py, of sizes 2, for step 2 and windows of 3 positions.
void check_golden(const Golden& golden, ScoreOptions score, Window window) {
  Parameters params(1, DType::f64);
  const Attention attention(make_score(params, 2, 2, score), params, 2, {window, 1});
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Var state = variable(golden["state"]), memory = variable(golden["memory"]);
  const Var coverage = golden.contains("coverage") ? variable(golden["coverage"]) : Var();
  const auto [context, weights, past] = attention({.state = state, .past = {2, coverage}},
                                                  attention.precompute(memory, golden["mask"]));
  CHECK(difference(context.value(), golden["context"]) < 1e-10);
  CHECK(difference(weights.value(), golden["weights"]) < 1e-10);
  const Gradients gradients = backward(test::weighted(context, golden["g_context"]) +
                                       test::weighted(weights, golden["g_weights"]));
  const auto check = [&](const std::string& name, const Var& x) {
    CAPTURE(name);
    const Tensor* gradient = gradients.find(x);
    CHECK(difference(gradient ? *gradient : zeros(x.shape(), DType::f64), golden["d_" + name]) <
          1e-10);
  };
  check("state", state), check("memory", memory);
  if (coverage.defined()) check("coverage", coverage);
  for (const auto& [name, w] : params) check(name, w);
}

TEST_CASE("Attention: every score with every window gives the numbers of a second implementation") {
  const Golden golden("attention_family");
  for (const ScoreKind& kind : score_kinds()) {
    if (std::string_view(kind.name) == "location_aware") continue;
    for (const Coverage coverage : {Coverage::none, Coverage::summed}) {
      for (const auto& [name, window] : {std::pair{"global", Window::global},
                                         {"local-m", Window::local_monotonic},
                                         {"local-p", Window::local_predictive}}) {
        const std::string place = fmt::format(
            "{}{}/{}/", kind.name, coverage == Coverage::summed ? " with coverage" : "", name);
        CAPTURE(place);
        check_golden(
            golden.at(place),
            {.kind = kind.name, .attention = 4, .heads = 2, .longest = 5, .coverage = coverage},
            window);
      }
    }
  }
}

/// (heads, S, B), with heads = 1 for scores without heads.
naive::Array heads_of(const Var& weights) {
  return weights.value().reshape({-1, weights.dim(-2), weights.dim(-1)});
}

TEST_CASE("Attention: weights are 0 on padding and outside of the window, and sum to 1") {
  for_all([](const Setting& s) {
    for (const Index step : {0, 3, 20}) {
      const Var weights = s.at(step).weights;
      const naive::Array w = heads_of(weights);
      naive::for_each_index(w.shape(), [&](const naive::At& at) {
        const Index length = kLengths[static_cast<std::size_t>(at[2])];
        const Index centre = std::min(step, length - 1);
        const bool outside =
            s.window.window == Window::local_monotonic && std::abs(at[1] - centre) > 2;
        if (at[1] >= length || outside) CHECK(w[at] == 0);
      });
      for (const double total : sum(weights.value(), {-2}).to_vector<double>()) {
        if (s.window.window == Window::local_predictive) {  // the Gaussian takes some
          CHECK(total <= 1);
          CHECK(total > 0);
        } else {
          CHECK(total == doctest::Approx(1).epsilon(1e-12));
        }
      }
    }
  });
}

TEST_CASE("Attention: the memory at padding changes neither values nor gradients") {
  const Tensor used = mask.reshape({kSteps, kBatch, 1}), g = randn({kBatch, kSize}, DType::f64, 8);
  const Setting s({.attention = 6}, {});
  Tensor far = s.h.value() * used + 300.0 * (1.0 - used), nan = s.h.value().clone();
  for (Index t = 0; t < kSteps; ++t) {
    for (Index b = 0; b < kBatch; ++b) {
      Tensor row = nan[t][b];
      if (t >= kLengths[static_cast<std::size_t>(b)])
        fill(row, std::numeric_limits<double>::quiet_NaN());
    }
  }
  const Var spoilt = variable(far);
  const AttentionResult clean = s.at(0), other = s.at(0, {}, spoilt, mask),
                        of_nan = s.at(0, {}, nan, mask);
  CHECK(identical(of_nan.context.value(), clean.context.value()));
  CHECK(identical(of_nan.weights.value(), clean.weights.value()));
  const Gradients d = backward(test::weighted(clean.context, g)),
                  d_other = backward(test::weighted(other.context, g));
  for (const char* name : {"score.W_a", "score.U_a", "score.v_a", "state"})
    CHECK(difference(d_other[s.params[name]], d[s.params[name]]) < 1e-13);
  CHECK(difference(d_other[spoilt], d[s.h]) < 1e-13);
  CHECK(difference(d_other[spoilt] * (1.0 - used), zeros(s.h.shape(), DType::f64)) == 0);
}

TEST_CASE("Attention: a window wider than the source is global attention") {
  const AttentionOptions wide{Window::local_monotonic, std::numeric_limits<Index>::max()};
  for (const ScoreOptions& score : scores()) {
    INFO(score.kind);
    CHECK(identical(Setting(score, wide).at(0).weights.value(),
                    Setting(score, {}).at(0).weights.value()));
  }
}

TEST_CASE("Attention: a window as wide as the source is global attention under a Gaussian") {
  // Equation 10 of Luong et al. (2015), written out from the global weights.
  for (const ScoreOptions& score : scores()) {
    INFO(score.kind);
    const Setting global(score, {}), local(score, windows.back());
    const naive::Array w = heads_of(global.at(0).weights), actual = heads_of(local.at(0).weights);
    const std::vector<double> z =
        sum(tanh(matmul(local.state, local.params["W_p"])) * local.params["v_p"], {-1})
            .value()
            .to_vector<double>();
    naive::for_each_index(w.shape(), [&](const naive::At& at) {
      const auto b = static_cast<std::size_t>(at[2]);
      const double p = static_cast<double>(kLengths[b]) / (1 + std::exp(-z[b])),
                   distance = static_cast<double>(at[1]) - p;
      const double expected = w[at] * std::exp(-distance * distance / (2 * 5.0 * 5.0));
      CHECK(actual[at] == doctest::Approx(expected).epsilon(1e-12));
    });
  }
}

TEST_CASE("Attention: coverage changes scores with coverage, and no others") {
  for_all([](const Setting& s) {
    const auto weights = [&](const Var& seen) { return s.at(2, seen).weights.value(); };
    CHECK((difference(weights(s.coverage), weights(2.0 * s.coverage)) > 1e-9) ==
          (s.score.coverage == Coverage::summed));
    // Undefined coverage equals zeros.
    CHECK(difference(weights({}), weights(zeros({kSteps, kBatch}, DType::f64))) < 1e-15);
  });
}

/// e = h · s
struct OwnScore : Score {
  Var operator()(const Query& query, const Keys& keys) const override {
    return sum(keys.k * query.state, {-1});
  }
};

TEST_CASE("Attention: takes a custom score, and differentiates it") {
  const Attention attention{OwnScore()};
  // Scores of the first sentence: 0, log 2, log 5 -> weights 1/8, 2/8, 5/8; of the second, of one
  // word: 1.
  const Tensor h = reals({3, 2, 2}, {0, 4, 9, 1, std::log(2.), 8, 9, 9, std::log(5.), 0, 9, 9});
  Parameters params(3, DType::f64);
  const Var query = params.add("query", {2, 2}, init::zeros()),
            memory = params.add("memory", {3, 2, 2}, init::zeros());
  test::set(params, "query", reals({2, 2}, {1, 0, 3, -2}));
  test::set(params, "memory", h);
  const auto attend = [&] {
    return attention({.state = query}, attention.precompute(memory, mask_of(3, {3, 1})));
  };
  const auto [context, weights, past] = attend();
  CHECK(difference(weights.value(), reals({3, 2}, {0.125, 1, 0.25, 0, 0.625, 0})) < 1e-15);
  const double first = 0.25 * std::log(2.) + 0.625 * std::log(5.);
  CHECK(difference(context.value(), reals({2, 2}, {first, 2.5, 9, 1})) < 1e-14);
  CHECK(gradcheck(params, [&] { return attend().context; }, {.step = 1e-4, .allow_zero = true}));
}

TEST_CASE("Attention: scores of another shape are an error") {
  struct Transposed : OwnScore {
    Var operator()(const Query& query, const Keys& keys) const override {
      return transpose(OwnScore::operator()(query, keys), 0, 1);
    }
  };
  const Attention attention{Transposed()};
  const Memory memory = attention.precompute(randn({3, 2, 4}, DType::f64), mask_of(3, {3, 1}));
  CHECK_ERROR("attention: scores (..., S, B) is (2, 3), but S = 3 in mask",
              attention({.state = randn({2, 4}, DType::f64)}, memory));
}

TEST_CASE("Attention: a score gets the target step and the coverage") {
  struct Curious : Score {
    Var operator()(const Query& query, const Keys&) const override {
      return query.past.coverage * static_cast<double>(query.past.steps);
    }
  };
  const Attention attention{Curious()};
  const Memory memory =
      attention.precompute(randn({2, 1, 3}, DType::f64), ones({2, 1}, DType::f64));
  const Var coverage = reals({2, 1}, {0, std::log(2.) / 3});
  const auto [context, weights, past] =
      attention({.state = randn({1, 4}, DType::f64), .past = {3, coverage}}, memory);
  CHECK(difference(weights.value(), reals({2, 1}, {1. / 3, 2. / 3})) < 1e-15);
}

/// Equal weights for all positions of `keys`; its state is the number of steps so far.
struct Uniform : Normalizer {
  Normalized operator()(const Var&, const Query& query, const Keys& keys) const override {
    const auto& past = query.past.state;
    const Var steps = past.empty() ? Var(ones({1, keys.mask.dim(1)}, DType::f64)) : past[0] + 1.0;
    return {keys.mask / sum(keys.mask, 0), {steps}};
  }
};

TEST_CASE("Attention: takes a custom normalizer, with or without a score, and in a window") {
  const Tensor h = randn({kSteps, kBatch, kSize}, DType::f64),
               q = randn({kBatch, kSize}, DType::f64);
  Parameters params;
  const auto dot = std::make_shared<DotScore>();
  const Attention local(dot, params, kSize, {Window::local_monotonic, 1, "sparsemax"},
                        std::make_shared<Uniform>());
  const Tensor all = reals({kSteps}, {0.25, 0.25, 0.25, 0.25, 0, 0, 0});
  const Tensor around_2 = reals({kSteps}, {0, 1. / 3, 1. / 3, 1. / 3, 0, 0, 0});
  for (const auto& [attention, expected] : {std::pair(Attention(Uniform()), all),
                                            {Attention(DotScore(), Uniform()), all},
                                            {local, around_2}}) {
    const Memory memory = attention.precompute(h, mask);
    AttentionResult read;
    for (int step = 0; step < 3; ++step) {
      const AttentionState past = select(read.past, ints({kBatch}, {0, 1, 2}));
      read = attention({.state = q, .past = past}, memory);
    }
    CHECK(identical(transpose(read.weights.value(), 0, 1)[1], expected));
    CHECK(identical(read.past.state.at(0).value(), full({1, kBatch}, 3, DType::f64)));
    const AttentionState two = select(read.past, ints({2}, {2, 0}));
    const Attention& one = attention;  // clang 14 captures no structured bindings
    CHECK(two.state[0].shape() == Shape{1, 2});
    CHECK_ERROR("attention: state (..., B) is (1, 2), but B = 3 in mask",
                one({.state = q, .past = {.state = {two.state[0]}}}, memory));
  }
  CHECK_ERROR("normalizer: 'hardmax' is not one of softmax, sparsemax",
              Attention(dot, params, kSize, {.normalizer = "hardmax"}));
}

TEST_CASE("select: columns of a memory in any order, with repetition") {
  const Setting s({.attention = 6}, {});
  const Memory memory = s.attention.precompute(s.h, mask);
  const std::vector<std::int32_t> from = {2, 0, 0, 1};
  const Memory selected = select(memory, ints({4}, {2, 0, 0, 1}));
  REQUIRE(selected.h.shape() == Shape{kSteps, 4, kSize});
  REQUIRE(selected.keys.k.shape() == Shape{kSteps, 4, 6});
  for (Index i = 0; i < 4; ++i) {
    for (Index t = 0; t < kSteps; ++t) {
      const Index b = from[static_cast<std::size_t>(i)];
      CHECK(identical(selected.h.value()[t][i], memory.h.value()[t][b]));
      CHECK(identical(selected.keys.k.value()[t][i], memory.keys.k.value()[t][b]));
      CHECK(identical(selected.keys.mask[t][i], mask[t][b]));
    }
  }
  CHECK_FALSE(selected.h.requires_gradient());
}

TEST_CASE("Attention: masks, coverage and windows that do not fit are errors") {
  const Setting s({.attention = 6}, {});
  CHECK_ERROR("attention: mask is undefined, in score", s.attention.precompute(s.h, {}));
  CHECK_ERROR("attention: mask (S, B) is (7, 2), but B = 3 in h, in score",
              s.attention.precompute(s.h, ones({kSteps, 2}, DType::f64)));
  CHECK_ERROR("attention: coverage (S, B) is (7, 1), but B = 3 in mask, in score",
              s.at(0, ones({kSteps, 1}, DType::f64)));
  const Setting windowed({.attention = 6}, {Window::local_monotonic, 1});
  CHECK_ERROR(
      "lengths_of: column 1 of the mask (7, 3) has a 1 after a 0, but padding after the steps was "
      "expected, in score",
      windowed.attention.precompute(windowed.h, where(arange(21).reshape({kSteps, 3}) == 4.0, 0.0,
                                                      ones({kSteps, 3}, DType::f64))));
  Parameters params;
  CHECK_ERROR("Attention: half_width = 0 is less than 1",
              Attention(std::make_shared<DotScore>(), params, 4, {Window::local_monotonic, 0}));
}

}  // namespace
}  // namespace attune::nn
