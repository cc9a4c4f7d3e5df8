#include <doctest/doctest.h>

#include <attune/nn/attention.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;

TEST_CASE("add_coverage: adds weights, averaged over heads") {
  const Tensor first = Tensor::of({3, 2}, {.5, 1., .25, 0., .25, 0.});
  const Tensor heads = Tensor::of({2, 3, 2}, {1., 1., 0., 0., 0., 0., 0., 1., .5, 0., .5, 0.});
  const Var one = nn::add_coverage({}, first), two = nn::add_coverage(one, heads);
  CHECK(difference(one.value(), first) == 0);
  CHECK(difference(two.value(), Tensor::of({3, 2}, {1., 2., .5, 0., .5, 0.})) < 1e-15);
}

TEST_CASE("coverage_loss: the overlap of each sentence's weights with its coverage") {
  const Tensor weights = Tensor::of({3, 2}, {.5, 1., .25, 0., .25, 0.});
  const Tensor coverage = Tensor::of({3, 2}, {.125, 2., .75, 0., .125, 0.});
  CHECK(difference(nn::coverage_loss(weights, coverage).value(), Tensor::of({2}, {.5, 1.})) <
        1e-15);
  CHECK(difference(nn::coverage_loss(weights, {}).value(), zeros({2}, DType::f64)) == 0);
  // Mean of the heads: .5 .5 0 in the first sentence, 1 0 0 in the second.
  const Tensor heads = Tensor::of({2, 3, 2}, {1., 1., 0., 0., 0., 0., 0., 1., 1., 0., 0., 0.});
  CHECK(difference(nn::coverage_loss(heads, coverage).value(), Tensor::of({2}, {.625, 1.})) <
        1e-15);
}

TEST_CASE("coverage: shapes that do not fit are named") {
  const Tensor weights = ones({3, 2}), other = ones({3, 1});
  const char* message = "coverage: coverage (S, B) is (3, 1), but B = 2 in weights";
  CHECK_ERROR(message, nn::add_coverage(other, weights));
  CHECK_ERROR(message, nn::coverage_loss(weights, other));
}

/// A minimal decoder: each query depends only on the previous contexts.
struct Reader {
  nn::Parameters params{3, DType::f64};
  nn::Attention attention;
  Var query, memory;

  explicit Reader(const std::string& kind, nn::Window window = nn::Window::global)
      : attention(nn::make_score(params, 4, 4,
                                 {.kind = kind,
                                  .attention = 6,
                                  .heads = 2,
                                  .longest = 5,
                                  .coverage = nn::Coverage::summed}),
                  params, 4, {.window = window, .half_width = 1}),
        query(params.add("query", {3, 4}, nn::init::normal(1))),
        memory(params.add("memory", {5, 3, 4}, nn::init::normal(1))) {
    test::set(params, "w_c", randn(params["w_c"].shape(), DType::f64, 9));
  }

  struct Read {
    Var context, coverage, loss;  // (B, D), (S, B), (B)
  };
  Read operator()(const Var& q, const Var& h, const Tensor& mask) const {
    const nn::Memory remembered = attention.precompute(h, mask);
    Read read{.context = q, .coverage = {}, .loss = zeros({q.dim(0)}, DType::f64)};
    for (Index step = 0; step < 3; ++step) {
      const auto [context, weights, past] =
          attention({.state = read.context, .past = {step, read.coverage}}, remembered);
      read.loss = read.loss + nn::coverage_loss(weights, read.coverage);
      read.coverage = nn::add_coverage(read.coverage, weights);
      read.context = context;
    }
    return read;
  }
};

const std::string kKinds[] = {"additive", "general", "multi_head"};
constexpr nn::Window kWindows[] = {nn::Window::global, nn::Window::local_monotonic,
                                   nn::Window::local_predictive};
const std::vector<Index> kLengths = {5, 3, 1};

TEST_CASE("coverage: zero on padding; a sentence in a batch has the loss that it has alone") {
  for (const std::string& kind : kKinds) {
    for (nn::Window window : kWindows) {
      const Reader reader(kind, window);
      const Tensor mask = mask_of(5, kLengths);
      const auto [context, coverage, loss] = reader(reader.query, reader.memory, mask);
      CHECK(identical(coverage.value() * (1.0 - mask), zeros({5, 3}, DType::f64)));
      for (Index b = 0; b < 3; ++b) {
        const Index length = kLengths[static_cast<std::size_t>(b)];
        const Reader::Read alone =
            reader(slice(reader.query, 0, b, b + 1),
                   test::sentence(reader.memory.value(), b, length), ones({length, 1}, DType::f64));
        CHECK(difference(alone.loss.value(), slice(loss, 0, b, b + 1).value()) < 1e-12);
        CHECK(difference(alone.coverage.value(), test::sentence(coverage.value(), b, length)) <
              1e-12);
      }
    }
  }
}

}  // namespace
