#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/nn/sequence.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/golden.hpp"

namespace attune {
namespace {

using test::difference;

TEST_CASE("Conv1d: values, masks and gradients are PyTorch's, sentence by sentence") {
  const struct {
    std::string name;
    nn::Conv1dOptions options;
  } cases[] = {{"3 1 0", {.width = 3}},
               {"3 1 1", {.width = 3, .padding = 1}},
               {"4 2 1", {.width = 4, .stride = 2, .padding = 1}},
               {"2 3 0", {.width = 2, .stride = 3}},
               {"1 1 2", {.width = 1, .padding = 2}}};
  for (const auto& one : cases) {
    INFO(one.name);
    const Golden golden = Golden("sequences").at("conv1d " + one.name + "/");
    nn::Parameters params(1, DType::f64);
    const nn::Conv1d conv(params, 4, 3, one.options);
    for (const auto& [path, w] : params) test::set(params, path, golden[path]);
    const Var x = variable(golden["x"]);
    const auto [y, mask] = conv({x, golden["mask"]});
    CHECK(test::identical(mask, golden["y_mask"]));
    const Tensor steps = mask.reshape({mask.dim(0), mask.dim(1), 1});
    CHECK(difference(y.value() * steps, golden["y"] * steps) < 1e-12);
    const Gradients gradients = backward(y, golden["g_y"]);
    CHECK(difference(gradients[x], golden["d_x"]) < 1e-12);
    CHECK(difference(gradients[params["W"]], golden["d_W"]) < 1e-12);
    CHECK(difference(gradients[params["b"]], golden["d_b"]) < 1e-12);
  }
}

TEST_CASE("Conv1d: gradients are central differences, with a mask and without") {
  for (const Tensor& mask : {Tensor(), test::ragged_mask(6, {6, 3})}) {
    nn::Parameters params(3, DType::f64);
    const nn::Conv1d conv(params, 3, 2, {.width = 3, .stride = 2, .padding = 1});
    const Var x = params.add("x", {6, 2, 3}, nn::init::normal(1));
    CHECK(gradcheck(params, [&] { return conv({x, mask}).x; }, {.allow_zero = true}));
  }
}

TEST_CASE(
    "Conv1d: of a batch that is padded beyond its longest sequence no more than that is left") {
  nn::Parameters params(3, DType::f64);
  const nn::Conv1d conv(params, 3, 2, {.width = 3});
  const auto [y, mask] = conv({randn({9, 2, 3}, DType::f64), test::ragged_mask(9, {6, 3})});
  CHECK(y.shape() == Shape{4, 2, 2});
  CHECK(test::identical(mask, test::ragged_mask(4, {4, 1})));
}

TEST_CASE("Conv1d: a sequence shorter than a window is an error, as is a window of nothing") {
  nn::Parameters params(3, DType::f64);
  const nn::Conv1d conv(params, 3, 2, {.width = 5, .padding = 1});
  CHECK_THROWS_WITH_AS(conv({randn({7, 2, 3}, DType::f64), test::ragged_mask(7, {7, 2})}),
                       "Conv1d: a sequence of 2 steps with a padding of 1 is shorter than a window "
                       "of 5",
                       Error);
  CHECK_THROWS_WITH_AS(nn::Conv1d(nn::Scope(params) / "other", 3, 2, {.width = 0}),
                       "unfold: width 0 and stride 1 must be at least 1, before 0 and after 0 at "
                       "least 0",
                       Error);
}

TEST_CASE(
    "join_steps: steps stand side by side, what is lacking is zero, padding does not matter") {
  const Tensor x = randn({5, 2, 3}, DType::f64);
  const auto [joined, mask] = nn::join_steps({x, test::ragged_mask(5, {5, 3})}, 2);
  const Tensor y = joined.value();
  CHECK(y.shape() == Shape{3, 2, 6});
  CHECK(test::identical(mask, test::ragged_mask(3, {3, 2})));
  const auto at = [&](Index t, Index b, Index half) {
    return slice(y[t][b], 0, 3 * half, 3 * half + 3);
  };
  const Tensor nothing = zeros({3}, DType::f64);
  CHECK(test::identical(at(0, 0, 0), x[0][0]));
  CHECK(test::identical(at(0, 0, 1), x[1][0]));
  CHECK(test::identical(at(1, 1, 0), x[2][1]));
  CHECK(test::identical(at(1, 1, 1), nothing));
  CHECK(test::identical(at(2, 0, 0), x[4][0]));
  CHECK(test::identical(at(2, 0, 1), nothing));
  CHECK(test::identical(nn::join_steps({x, {}}, 1).x.value(), x));
  CHECK_THROWS_WITH_AS(nn::join_steps({x, {}}, 0), "join_steps: n = 0 is less than 1", Error);
}

}  // namespace
}  // namespace attune
