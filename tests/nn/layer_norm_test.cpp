#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/layer_norm.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;

TEST_CASE("LayerNorm: it has gain and bias, ones and zeros at first") {
  nn::Parameters params;
  const nn::LayerNorm norm(nn::Scope(params) / "norm", 3);
  CHECK(params.all().size() == 2);
  CHECK(test::identical(params["norm.gain"].value(), ones({3})));
  CHECK(test::identical(params["norm.bias"].value(), zeros({3})));
}

TEST_CASE("LayerNorm: at first rows have mean 0 and variance 1") {
  nn::Parameters params(1, DType::f64);
  const nn::LayerNorm norm(params, 4, {.epsilon = 0});
  const Tensor y = norm(randn({2, 3, 4}, DType::f64) * 5.0 + 2.0).value();
  CHECK(test::difference(mean(y, {-1}), zeros({2, 3}, DType::f64)) < 1e-14);
  CHECK(test::difference(mean(y * y, {-1}), ones({2, 3}, DType::f64)) < 1e-14);
}

TEST_CASE("LayerNorm: PyTorch's values and gradients, with either epsilon") {
  for (const auto& [name, options] :
       {std::pair<const char*, nn::LayerNormOptions>("layer_norm/", {}),
        std::pair<const char*, nn::LayerNormOptions>("layer_norm_large_epsilon/",
                                                     {.epsilon = 0.5})}) {
    const Golden golden = Golden("ops2").at(name);
    nn::Parameters params(1, DType::f64);
    const nn::LayerNorm norm(params, 5, options);
    test::set(params, "gain", golden["gain"]);
    test::set(params, "bias", golden["bias"]);
    const Var x = variable(golden["x"]);
    const Var y = norm(x);
    CHECK(test::difference(y.value(), golden["y"]) < 1e-12);
    const Gradients gradients = backward(y, golden["g_y"]);
    CHECK(test::difference(gradients[x], golden["d_x"]) < 1e-12);
    CHECK(test::difference(gradients[params["gain"]], golden["d_gain"]) < 1e-12);
    CHECK(test::difference(gradients[params["bias"]], golden["d_bias"]) < 1e-12);
  }
}

TEST_CASE("LayerNorm: gradients of gain, bias and input agree with differences") {
  for (double factor : {1.0, 10.0}) {
    nn::Parameters params(1, DType::f64);
    const nn::LayerNorm norm(params, 4);
    params.add("x", {2, 3, 4}, nn::init::normal(1));
    test::scale_parameters(params, factor);
    CHECK(gradcheck(params, [&] { return norm(params["x"]); }));
  }
}

TEST_CASE("LayerNorm: an input of another size is an error that shows the shapes") {
  nn::Parameters params;
  const nn::LayerNorm norm(params, 4);
  CHECK_THROWS_WITH_AS(norm(zeros({2, 3})), "layer_norm: gain (N) is (4), but N = 3 in x", Error);
}

}  // namespace
