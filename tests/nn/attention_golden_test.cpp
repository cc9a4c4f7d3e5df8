// Every score with every window against a second implementation: tests/golden/make_attention.py.
#include <cmath>
#include <functional>
#include <memory>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/arrange.hpp>

#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::nn {
namespace {

constexpr Index kSize = 4, kAttention = 6, kLongest = 8, kHeads = 2, kStep = 2, kHalfWidth = 1;

using MakeScore = std::function<std::shared_ptr<const Score>(const Scope&)>;

const std::vector<std::pair<std::string, MakeScore>> scores = {
    {"additive",
     [](const Scope& s) { return std::make_shared<AdditiveScore>(s, kSize, kSize, kAttention); }},
    {"dot", [](const Scope&) { return std::make_shared<DotScore>(); }},
    {"scaled_dot", [](const Scope&) { return std::make_shared<ScaledDotScore>(); }},
    {"general", [](const Scope& s) { return std::make_shared<GeneralScore>(s, kSize, kSize); }},
    {"concat",
     [](const Scope& s) { return std::make_shared<ConcatScore>(s, kSize, kSize, kAttention); }},
    {"location",
     [](const Scope& s) { return std::make_shared<LocationScore>(s, kSize, kLongest); }},
    {"cosine", [](const Scope& s) { return std::make_shared<CosineScore>(s, kSize); }},
    {"multi_head", [](const Scope& s) {
       return std::make_shared<MultiHeadScore>(s, kSize, kSize, kAttention, kHeads);
     }}};

/// "SCORE with coverage", beside each score.
std::vector<std::pair<std::string, MakeScore>> with_coverage() {
  std::vector<std::pair<std::string, MakeScore>> all = scores;
  for (const auto& [name, make] : scores) {
    const std::string covered = name + " with coverage";
    if (name == "additive") {
      all.emplace_back(covered, [](const Scope& s) {
        return std::make_shared<AdditiveScore>(s, kSize, kSize, kAttention, Coverage::summed);
      });
    } else if (name == "concat") {
      all.emplace_back(covered, [](const Scope& s) {
        return std::make_shared<ConcatScore>(s, kSize, kSize, kAttention,
                                             ConcatScoreOptions{.coverage = Coverage::summed});
      });
    } else {
      all.emplace_back(covered, [make = make](const Scope& s) {
        return std::make_shared<CoveredScore>(s, make(s), kSize);
      });
    }
  }
  return all;
}

const std::vector<std::pair<std::string, Window>> windows = {{"global", Window::global},
                                                             {"local-m", Window::local_monotonic},
                                                             {"local-p", Window::local_predictive}};

void check_near(const std::string& what, const Tensor& actual, const Tensor& expected) {
  INFO(what);
  REQUIRE(actual.shape() == expected.shape());
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(std::abs(a[i] - e[i]) <= 1e-10 * (1 + std::abs(e[i])));
}

void check_against_golden(const Golden& golden, const MakeScore& make, Window window) {
  Parameters params(1, DType::f64);
  const Attention attention(make(params), params, kSize, {window, kHalfWidth});
  for (const auto& [name, w] : params) {
    Tensor values = w.value();
    copy(golden[name], values);
  }
  const Var state = variable(golden["state"]), memory = variable(golden["memory"]);
  const Var coverage = golden.contains("coverage") ? variable(golden["coverage"]) : Var();
  const Attended attended = attention({.state = state, .past = {kStep, coverage}},
                                      attention.remember(memory, golden["mask"]));
  check_near("context", attended.context.value(), golden["context"]);
  check_near("weights", attended.weights.value(), golden["weights"]);
  const Gradients gradients = backward(sum(attended.context * golden["g_context"]) +
                                       sum(attended.weights * golden["g_weights"]));
  check_near("d_state", gradients.find(state) ? gradients[state] : zeros(state.shape(), DType::f64),
             golden["d_state"]);
  check_near("d_memory", gradients[memory], golden["d_memory"]);
  if (coverage.defined()) check_near("d_coverage", gradients[coverage], golden["d_coverage"]);
  for (const auto& [name, w] : params) check_near("d_" + name, gradients[w], golden["d_" + name]);
}

TEST_CASE("Attention: every score with every window gives the numbers of a second implementation") {
  const Golden golden("attention_family");
  for (const auto& [score, make] : with_coverage()) {
    for (const auto& [name, window] : windows) {
      CAPTURE_BINDING(score);
      CAPTURE_BINDING(name);
      check_against_golden(golden.at(score + "/" + name + "/"), make, window);
    }
  }
}

}  // namespace
}  // namespace attune::nn
