// The models of papers against a second implementation: tests/golden/make_papers.py.
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/by_name.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::models {
namespace {

using test::force;

/// The CASES of the script.
const std::vector<std::string> kCases = {
    "bahdanau",
    "bahdanau cell=lstm encoder-layers=2 tied=target-output",
    "bahdanau cell=gru-reset-before coverage=summed",
    "nematus",
    "nematus cell=lstm tied=all",
    "luong",
    "luong cell=gru score=additive coverage=summed reading=bidirectional encoder-layers=1 "
    "input-feeding=no",
    "encoder-decoder",
    "sutskever",
    "sutskever cell=gru layers=2"};

TEST_CASE("papers: loss, logits, weights and all gradients are PyTorch's") {
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    INFO(kCases[i]);
    const Golden golden = Golden("papers").at(std::to_string(i) + "/");
    const bool tied = kCases[i].find("tied") != std::string::npos;
    const bool one_table = kCases[i].find("tied=all") != std::string::npos;
    const ModelOptions options = test::options_from(
        kCases[i], fmt::format("embedding=2 hidden=3 attention=4 readout={}", tied ? 2 : 5));
    nn::Parameters params(1, DType::f64);
    const NamedModel model(params, options, {one_table ? 6 : 7, 6});
    for (const auto& [name, w] : params) test::set(params, name, golden[name]);
    const text::Batch batch{golden["source"], golden["source_mask"], golden["previous"],
                            golden["next"], golden["target_mask"]};
    const auto [logits, weights] = force(model, batch);
    // At padding the script has 0; the decoder computes values there.
    const Tensor words = batch.target_mask.reshape({3, 1, 2});
    CHECK(difference(permute(logits, {0, 2, 1}).value() * words,
                     permute(Var(golden["logits"]), {0, 2, 1}).value()) < 1e-10);
    const bool attends = model_kind(options.name).attends;
    CHECK(weights.defined() == attends);
    if (attends) CHECK(difference(weights.value() * words, golden["weights"]) < 1e-10);
    const Var loss = models::loss(model, batch);
    CHECK(std::abs(loss.item() - golden.number("loss")) < 1e-10);
    const Gradients gradients = backward(loss);
    for (const auto& [name, w] : params) {
      CAPTURE_BINDING(name);
      CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
    }
  }
}

}  // namespace
}  // namespace attune::models
