#include <doctest/doctest.h>

#include <attune/models/papers.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/errors.hpp"

namespace {

using namespace attune;
using models::Listener;

TEST_CASE("Listener: each layer concatenates steps and reduces the mask") {
  nn::Parameters params(1, DType::f64);
  const Listener listener(params, {.features = 3, .hidden = 4, .join = {1, 2, 3}});
  const auto [h, last, mask] = listener(randn({13, 2, 3}, DType::f64), mask_of(13, {13, 5}));
  CHECK(h.shape() == Shape{3, 2, 8});  // 13, 7, 3
  CHECK(identical(mask, mask_of(3, {3, 1})));
  CHECK(last.size() == 3);
  CHECK(last.back().h.shape() == Shape{2, 4});
  CHECK(params["layer2.forward.W_x"].shape() == Shape{16, 16});
  CHECK(listener.sizes().h == 8);
  CHECK(listener.sizes().last == 4);
}

TEST_CASE("Listener: a sequence gives the same result in a padded batch and alone") {
  nn::Parameters params(1, DType::f64);
  const Listener listener(params, {.features = 3, .hidden = 4, .join = {2, 2}});
  const Tensor x = randn({9, 2, 3}, DType::f64);
  const auto both = listener(x, mask_of(9, {9, 5}));
  const auto alone = listener(test::sentence(x, 1, 5), {});
  CHECK(alone.h.dim(0) == 2);
  CHECK(difference(test::sentence(both.h.value(), 1, 2), alone.h.value()) < 1e-13);
}

TEST_CASE("Listener: an LSTM encoder starts decoders with another cell, from its h") {
  nn::Parameters params(1);
  const nn::Scope scope(params);
  const Listener listener(scope / "listener", {.features = 3, .hidden = 4});
  const models::Encoded encoded = listener(randn({9, 2, 3}), ones({9, 2}));
  const auto check = [&](const models::Model& decoder) {
    models::Model::State state = decoder.start(encoded);
    CHECK(test::step_from(decoder, Tensor::of({2}, {1, 1}), state).logits.shape() == Shape{2, 5});
  };
  check(models::LuongDecoder(scope / "luong",
                             {.target_vocabulary = 5, .hidden = 4, .cell = nn::Cell::gru},
                             listener.sizes()));
  check(models::SutskeverDecoder(
      scope / "sutskever",
      {.target_vocabulary = 5, .hidden = 4, .layers = 3, .cell = nn::Cell::gru}, listener.sizes()));
}

TEST_CASE("Listener: no layers, and a layer that joins 0 steps, are errors") {
  nn::Parameters params(1, DType::f64);
  CHECK_ERROR("Listener: there is no layer", Listener(params, {.join = {}}));
  CHECK_ERROR("Listener: layer 2 joins 0 steps, expected >= 1", Listener(params, {.join = {2, 0}}));
}

}  // namespace
