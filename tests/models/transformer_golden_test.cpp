// The Transformer against PyTorch's nn.MultiheadAttention and nn.Transformer:
// tests/golden/make_transformer.py.
#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/loss.hpp>
#include <attune/models/transformer.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::models {
namespace {

using nn::Nonlinearity, nn::Norm;

constexpr Index D = 4, kHeads = 2, kInner = 3, kWords = 5;

/// Takes all parameters from the file; afterwards `check` compares their gradients.
void take(const nn::Parameters& params, const Golden& golden) {
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
}
void check(const nn::Parameters& params, const Gradients& gradients, const Golden& golden) {
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("MultiHeadAttention: results, weights and all gradients are PyTorch's") {
  const struct {
    const char* name;
    Index memory;  // 0: the queries are it
    nn::Causal causal = nn::Causal::no;
  } cases[] = {{"self causal", 0, nn::Causal::yes}, {"cross of another size, masked", 2}};
  for (const auto& [name, memory, causal] : cases) {
    CAPTURE_BINDING(name);
    const Golden golden = Golden("transformer").at(std::string(name) + "/");
    nn::Parameters params(1, DType::f64);
    const nn::MultiHeadAttention layer(params, D, {.heads = kHeads, .causal = causal}, memory);
    take(params, golden);
    const Tensor mask = golden.contains("mask") ? golden["mask"] : Tensor();
    const Var x = variable(golden["x"]), h = memory > 0 ? variable(golden["h"]) : x;
    const auto [y, weights] = layer(x, layer.precompute(h), mask, nn::Weights::per_head);
    CHECK(difference(y.value(), golden["y"]) < 1e-10);
    CHECK(difference(weights.value(), golden["weights"]) < 1e-10);
    const Gradients gradients =
        backward(test::weighted(y, golden["g_y"]) + test::weighted(weights, golden["g_weights"]));
    check(params, gradients, golden);
    CHECK(difference(gradients[x], golden["d_x"]) < 1e-10);
    if (memory > 0) CHECK(difference(gradients[h], golden["d_h"]) < 1e-10);
  }
}

TEST_CASE("Transformer: logits and all gradients are PyTorch's") {
  const struct {
    const char* name;
    Norm norm;
    Nonlinearity f;
    Tied tied;
  } cases[] = {{"after relu none", Norm::after, Nonlinearity::relu, Tied::none},
               {"before gelu all", Norm::before, Nonlinearity::gelu, Tied::all}};
  for (const auto& [name, norm, f, tied] : cases) {
    CAPTURE_BINDING(name);
    const Golden golden = Golden("transformer").at(std::string(name) + "/");
    nn::Parameters params(1, DType::f64);
    const Transformer model(
        params,
        {.source_vocabulary = kWords,
         .target_vocabulary = kWords,
         .layer = {.size = D, .heads = kHeads, .inner = kInner, .nonlinearity = f, .norm = norm},
         .encoder_layers = 2,
         .decoder_layers = 2,
         .tied = tied});
    take(params, golden);
    const Encoded source = model.encode(golden["source"], golden["source_mask"]);
    const Var logits(Model(model).unroll(source, golden["previous"], {}, false).logits);
    const Tensor words = golden["target_mask"].reshape({3, 2, 1});
    CHECK(difference(logits.value() * words, golden["logits"] * words) < 1e-10);
    check(params, backward(test::weighted(logits, golden["g_logits"])), golden);
  }
}

}  // namespace
}  // namespace attune::models
