#include <cstdint>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/embedding.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::identical;

Tensor ids(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return Tensor::of(shape, values);
}

TEST_CASE("Embedding: a word's vector is its row of the table") {
  nn::Parameters params(1, DType::f64);
  const nn::Embedding embedding(nn::Scope(params) / "source", 5, 3);
  REQUIRE(params["source.E"].shape() == Shape{5, 3});
  CHECK(embedding.table().value().shares_buffer_with(params["source.E"].value()));
  const Tensor table = params["source.E"].value();
  const Var y = embedding(ids({2, 2}, {4, 0, 2, 4}));
  REQUIRE(y.shape() == Shape{2, 2, 3});
  CHECK(identical(y.value()[0][0], table[4]));
  CHECK(identical(y.value()[0][1], table[0]));
  CHECK(identical(y.value()[1][0], table[2]));
  CHECK(identical(y.value()[1][1], table[4]));
}

TEST_CASE("Embedding: the gradient adds up over repeated words and is zero for the others") {
  nn::Parameters params(1, DType::f64);
  const nn::Embedding embedding(params, 5, 2);
  const Tensor g = Tensor::of({3, 2, 2}, {1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.});
  const Gradients gradients =
      backward(test::weighted(embedding(ids({3, 2}, {3, 1, 3, 0, 1, 3})), g));
  // 3: (1, 2) + (5, 6) + (11, 12);  1: (3, 4) + (9, 10);  0: (7, 8)
  CHECK(identical(gradients[params["E"]],
                  Tensor::of({5, 2}, {7., 8., 12., 14., 0., 0., 17., 20., 0., 0.})));
}

TEST_CASE("Embedding: an id outside of the vocabulary is an error that names it") {
  nn::Parameters params;
  const nn::Embedding embedding(params, 5, 2);
  CHECK_THROWS_WITH_AS(embedding(ids({3}, {0, 4, 5})), "gather: id 5 at 2 is not in 0 to 4", Error);
  CHECK_THROWS_WITH_AS(embedding(ids({2}, {-1, 0})), "gather: id -1 at 0 is not in 0 to 4", Error);
  CHECK_THROWS_AS(embedding(zeros({3})), Error);
}

}  // namespace
