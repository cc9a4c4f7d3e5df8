#include <limits>

#include <doctest/doctest.h>

#include <attune/nn/divergence.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// A watch, and steps of any loss and gradient.
struct Watched {
  nn::Parameters params{1};
  Var w = params.add("w", {2}, nn::init::zeros());
  nn::DivergenceWatch watch;

  nn::DivergenceWatch::Step step(double loss, double gradient = 1) {
    Gradients gradients = backward(test::weighted(w, full({2}, gradient)));
    return watch.observe(loss, params, gradients);
  }
  /// The messages of some steps, one after another.
  std::string steps(int n, double loss) {
    std::string messages;
    for (int i = 0; i < n; ++i) messages += step(loss).message;
    return messages;
  }
};

TEST_CASE("DivergenceWatch: a loss or gradient that is not finite is named, counted, not used") {
  Watched t;
  CHECK(t.step(2.5).usable);
  CHECK(t.watch.skipped() == 0);
  auto [usable, message] = t.step(2.5, nan);
  CHECK_FALSE(usable);
  CHECK(message ==
        "the update is skipped: the loss is 2.5, the norm of the gradients nan: the gradient of "
        "'w' (2), element (0) is nan");
  CHECK(t.step(infinity, -infinity).message ==
        "the update is skipped: the loss is inf, the norm of the gradients inf: the gradient of "
        "'w' (2), element (0) is -inf");
  CHECK(t.step(-nan, 8).message ==
        "the update is skipped: the loss is nan, the norm of the gradients 11.31");
  CHECK(t.watch.skipped() == 3);
  CHECK(t.watch.skipped_in_a_row() == 3);
  CHECK(t.step(2.5, 1e30).message == "");
  CHECK(t.watch.skipped() == 3);
  CHECK(t.watch.skipped_in_a_row() == 0);
}

TEST_CASE("DivergenceWatch: fifty steps in a row beyond twice the first loss are told once") {
  Watched t;
  t.step(nan);  // is no first loss
  CHECK(t.steps(1, 2.5) == "");
  CHECK(t.steps(49, 697532) == "");
  CHECK(t.steps(1, 4.5) == "");  // spikes end
  CHECK(t.steps(49, 5.01) == "");
  t.step(infinity);
  CHECK_FALSE(t.watch.diverges());
  CHECK(t.steps(1, 697532.25) ==
        "training diverges: the loss, 6.975e+05, has been more than 2 times the first step's, 2.5, "
        "for 50 steps");
  CHECK(t.watch.diverges());
  CHECK(t.steps(1000, 8) == "");
  CHECK(t.watch.diverges());
  t.step(5);
  CHECK_FALSE(t.watch.diverges());
  CHECK(t.steps(50, 5.5) != "");
}

TEST_CASE("DivergenceWatch: a first loss that is not positive is no measure") {
  for (const double first : {0.0, -1.0}) {
    Watched t;
    t.step(first);
    CHECK(t.steps(40, -0.5) + t.steps(40, -0.25) == "");
  }
}

TEST_CASE("DivergenceWatch: it goes on from a saved state as if nothing had been") {
  Watched t, resumed;
  t.step(0.1), t.step(nan), t.steps(30, 7), t.step(nan), t.step(nan);
  Metadata metadata;
  t.watch.save(metadata);
  resumed.watch.load(metadata);
  CHECK(resumed.watch.skipped() == 3);
  CHECK(resumed.watch.skipped_in_a_row() == 2);
  CHECK(resumed.steps(19, 0.2000001) == "");
  CHECK(resumed.steps(1, 0.2000001) != "");
}

TEST_CASE("DivergenceWatch: a state that is none is an error and changes nothing") {
  Watched t;
  t.step(nan);
  Metadata metadata;
  CHECK_THROWS_WITH_AS(t.watch.load(metadata),
                       "checkpoint: there is no 'divergence.first_loss' in it", Error);
  nn::DivergenceWatch().save(metadata);
  for (const auto& [name, wrong] : {std::pair{"divergence.first_loss", "nan"},
                                    {"divergence.above", "-1"},
                                    {"divergence.skipped", "1.5"},
                                    {"divergence.in_a_row", "many"}}) {
    auto other = metadata;
    other[name] = wrong;
    CHECK_THROWS_AS(t.watch.load(other), Error);
    other.erase(name);
    CHECK_THROWS_AS(t.watch.load(other), Error);
  }
  CHECK(t.watch.skipped() == 1);
}

}  // namespace
