#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/schedules.hpp>
#include <attune/tensor/errors.hpp>

#include "support/naive.hpp"

namespace {

using namespace attune;
using attune::infinity, attune::nan;
using doctest::Approx;

TEST_CASE("WarmUp: increases linearly from the first step, then is constant") {
  const nn::WarmUp schedule{.steps = 4, .next = [](std::int64_t) { return 2; }};
  const double wanted[] = {0.5, 1, 1.5, 2, 2, 2};
  for (std::int64_t step = 0; step < 6; ++step) CHECK(schedule(step) == wanted[step]);
}

TEST_CASE("InverseSquareRoot: rises to the rate, and is half of it at four times the warm-up") {
  const nn::InverseSquareRoot schedule{.rate = 0.5, .warm_up = 100};
  CHECK(schedule(0) == Approx(0.005));
  CHECK(schedule(49) == Approx(0.25));
  CHECK(schedule(99) == 0.5);
  CHECK(schedule(100) < 0.5);
  CHECK(schedule(399) == Approx(0.25));
  CHECK(schedule(9999) == Approx(0.05));
}

TEST_CASE("LinearDecay: decreases linearly to the last rate, then is constant") {
  const nn::LinearDecay schedule{.rate = 1, .last = 0.5, .steps = 4};
  const double wanted[] = {1, 0.875, 0.75, 0.625, 0.5, 0.5};
  for (std::int64_t step = 0; step < 6; ++step) CHECK(schedule(step) == wanted[step]);
  const nn::LinearDecay to_zero{.rate = 1, .steps = 10};
  CHECK(to_zero(9) == Approx(0.1));
  CHECK(to_zero(10) == 0);
  const nn::LinearDecay late{.rate = 1, .last = 0.5, .steps = 6, .after = 2};
  for (std::int64_t step = 0; step < 8; ++step) {
    CHECK(late(step) == schedule(std::max<std::int64_t>(0, step - 2)));
  }
}

TEST_CASE("WarmUp: scales the next schedule until the given step") {
  const nn::WarmUp schedule{.steps = 2, .next = nn::LinearDecay{.rate = 1, .steps = 4}};
  const double wanted[] = {0.5, 0.75, 0.5, 0.25, 0, 0};
  for (std::int64_t step = 0; step < 6; ++step) CHECK(schedule(step) == wanted[step]);
  const nn::WarmUp none{.steps = 1, .next = schedule.next};
  for (std::int64_t step = 0; step < 6; ++step) CHECK(none(step) == schedule.next(step));
}

TEST_CASE("Schedule: sets the rate of an optimiser's next step from its step count") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {}, nn::init::zeros());
  const nn::LinearDecay schedule{.rate = 1, .steps = 4};
  nn::Sgd sgd(params, {.rate = 1});
  for (int i = 0; i < 3; ++i) {
    sgd.set_rate(schedule(sgd.steps()));
    sgd.step(backward(w * 1.0));
  }
  CHECK(w.item() == -(1 + 0.75 + 0.5));
}

TEST_CASE("Schedules: fields out of range are errors") {
  CHECK_ERROR("LinearDecay: rate = 0 is not in (0, inf)", (nn::LinearDecay{0, 0, 1}(0)));
  CHECK_THROWS_AS((nn::LinearDecay{nan, 0, 1}(0)), Error);
  CHECK_ERROR("LinearDecay: step = -1 is not in [0, inf)", (nn::LinearDecay{1, 0, 1}(-1)));
  CHECK_THROWS_AS((nn::LinearDecay{infinity, 0, 1}(0)), Error);
  CHECK_THROWS_AS((nn::InverseSquareRoot{.rate = 1, .warm_up = 0}(0)), Error);
  CHECK_THROWS_AS((nn::InverseSquareRoot{.rate = 1}(-1)), Error);
  CHECK_ERROR("LinearDecay: last = -1 is not in [0, inf)",
              (nn::LinearDecay{.rate = 1, .last = -1, .steps = 1}(0)));
  CHECK_ERROR("LinearDecay: steps = 2 is not in (after, inf)",
              (nn::LinearDecay{.rate = 1, .steps = 2, .after = 2}(0)));
  CHECK_ERROR("WarmUp: steps = 0 is not in [1, inf)",
              (nn::WarmUp{.steps = 0, .next = nn::LinearDecay{1, 0, 1}}(0)));
}

TEST_CASE("HalveOnPlateau: halves at every observation that is no new best") {
  nn::HalveOnPlateau plateau({.rate = 1});
  CHECK(plateau.rate() == 1);
  CHECK(plateau.best() == infinity);
  const double losses[] = {5, 4, 4, 3, 3.5, 3.2, 2}, rates[] = {1, 1, 0.5, 0.5, 0.25, 0.125, 0.125};
  for (std::size_t i = 0; i < 7; ++i) CHECK(plateau.observe(losses[i]) == rates[i]);
  CHECK(plateau.best() == 2);
}

TEST_CASE("HalveOnPlateau: patience counts observations in a row, and restarts; another factor") {
  nn::HalveOnPlateau plateau({.rate = 1, .factor = 0.25, .patience = 2});
  const double losses[] = {5, 6, 6, 4, 6, 6, 6, 6, 6, 6, 6};
  const double rates[] = {1, 1, 1, 1, 1, 1, 0.25, 0.25, 0.25, 0.0625, 0.0625};
  for (std::size_t i = 0; i < 11; ++i) {
    INFO(i);
    CHECK(plateau.observe(losses[i]) == rates[i]);
  }
}

TEST_CASE("HalveOnPlateau: a metric where higher is better") {
  nn::HalveOnPlateau plateau({.rate = 1, .higher_is_better = true});
  CHECK(plateau.best() == -infinity);
  CHECK(plateau.observe(0.25) == 1);
  CHECK(plateau.observe(0.5) == 1);
  CHECK(plateau.observe(0.4) == 0.5);
  CHECK(plateau.best() == 0.5);
}

TEST_CASE("HalveOnPlateau: an infinite loss is no best, NaN is an error that changes nothing") {
  nn::HalveOnPlateau plateau({.rate = 1});
  CHECK(plateau.observe(infinity) == 0.5);
  CHECK(plateau.observe(3) == 0.5);
  CHECK_ERROR("HalveOnPlateau: the metric is nan", plateau.observe(nan));
  CHECK(plateau.rate() == 0.5);
  CHECK(plateau.best() == 3);
}

TEST_CASE("HalveOnPlateau: continues from a checkpoint's metadata exactly") {
  const nn::HalveOnPlateauOptions options{.rate = 0.1, .factor = 0.7, .patience = 1};
  for (const int made : {0, 1, 2, 3, 5}) {
    nn::HalveOnPlateau plateau(options), resumed(options);
    const double losses[] = {1.0 / 3, 0.5, 0.1 + 0.2, 0.4, 0.4, 0.4, 0.3, 0.7, 0.7, 0.7};
    for (int i = 0; i < made; ++i) plateau.observe(losses[i]);
    Safetensors file;
    plateau.save(file);
    CHECK(file.metadata.size() == 3);
    resumed.load(file);
    CHECK(resumed.rate() == plateau.rate());
    CHECK(resumed.best() == plateau.best());
    for (int i = made; i < 10; ++i) CHECK(resumed.observe(losses[i]) == plateau.observe(losses[i]));
  }
}

TEST_CASE("HalveOnPlateau: metadata that do not fit are an error and change nothing") {
  nn::HalveOnPlateau plateau({.rate = 1});
  plateau.observe(7);
  CHECK_ERROR("checkpoint: 'plateau.rate' is missing", plateau.load({}));
  Safetensors good;
  nn::HalveOnPlateau({.rate = 0.25}).save(good);
  const auto refused = [&](const char* name, const char* value) {
    INFO(name, " ", value);
    auto wrong = good;
    wrong.metadata[name] = value;
    CHECK_THROWS_AS(plateau.load(wrong), Error);
    CHECK(plateau.rate() == 1);
    CHECK(plateau.best() == 7);
  };
  for (const char* rate : {"", "0", "-1", "nan", "inf", "0.5 ", "fast"}) {
    refused("plateau.rate", rate);
  }
  for (const char* best : {"", "nan", "1,5"}) refused("plateau.best", best);
  for (const char* waited : {"", "-1", "0.5", "many"}) refused("plateau.waited", waited);
  plateau.load(good);
  CHECK(plateau.rate() == 0.25);
}

TEST_CASE("HalveOnPlateau: options out of range are errors") {
  const auto make = [](const nn::HalveOnPlateauOptions& options) { nn::HalveOnPlateau p(options); };
  CHECK_ERROR("HalveOnPlateau: rate = 0 is not in (0, inf)", make({.rate = 0}));
  CHECK_THROWS_AS(make({.rate = 1, .factor = 1}), Error);
  CHECK_THROWS_AS(make({.rate = 1, .factor = 0}), Error);
  CHECK_THROWS_AS(make({.rate = 1, .factor = nan}), Error);
  CHECK_ERROR("HalveOnPlateau: patience = -1 is not in [0, inf)",
              make({.rate = 1, .patience = -1}));
}

}  // namespace
