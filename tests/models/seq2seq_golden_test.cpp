// The general model in many wirings against a second implementation: tests/golden/make_seq2seq.py.
#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/seq2seq.hpp>

#include "models/wirings.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::models {
namespace {

const std::vector<std::string> cases = {
    "attend=between start=mean",
    "attend=between start=mean decoder-cell=lstm decoder-layers=2 residual=yes",
    "attend=last-state reading=forward readout-kind=maxout",
    "attend=never reading=backward start=last encoder-cell=lstm decoder-cell=lstm "
    "readout-kind=attentional",
    "attend=after reading=forward start=last readout-kind=attentional input-feeding=yes "
    "encoder-layers=2 decoder-layers=2 residual=yes",
    "attend=before encoder-layers=2 residual=yes encoder-cell=gru-reset-before "
    "input-feeding=yes",
    "attend=before decoder-cell=gru-reset-before readout-state=previous readout-layers=3 "
    "start=zero",
    "attend=after coverage=summed start=mean decoder-layers=2 readout-kind=maxout",
    "attend=before tied=target-output self-attention=2 start=last encoder-cell=lstm "
    "decoder-cell=lstm",
    "attend=between tied=all start=zero decoder-cell=lstm input-feeding=yes",
    "attend=before encoder-cell=lstm decoder-cell=lstm"};

/// The sizes of the script, with these changes.
Seq2SeqOptions options_of(const std::string& changes) {
  Seq2SeqOptions o{.source_vocabulary = 9,
                   .target_vocabulary = 8,
                   .embedding = 3,
                   .hidden = 4,
                   .score = {.attention = 5},
                   .readout_kind = ReadoutKind::tanh,
                   .readout = 6};
  test::change(o, changes);
  if (o.tied != Tied::none) o.readout = o.embedding;
  if (o.tied == Tied::all) o.source_vocabulary = o.target_vocabulary;
  return o;
}

/// 1 on the words of x (T, B, ...), 0 on padding.
Var on_words(const Var& x, const Tensor& mask, Index last) {
  return x * mask.reshape({mask.dim(0), mask.dim(1), 1}) * ones({last}, DType::f64);
}

void check_case(const Golden& golden, const std::string& changes) {
  nn::Parameters params(1, DType::f64);
  const Seq2Seq model(params, options_of(changes));
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Tensor target_mask = golden["target_mask"];
  const Encoded encoded = model.encode(golden["source"], golden["source_mask"]);
  const auto [logits, weights] = force(model, encoded, golden["previous"]);
  const Var words = on_words(logits, target_mask, 8);
  CHECK(test::difference(words.value(), on_words(golden["logits"], target_mask, 8).value()) <
        1e-10);
  if (weights.defined()) {
    const Var looked = on_words(permute(weights, {0, 2, 1}), target_mask, 4);
    CHECK(test::difference(looked.value(), permute(Var(golden["weights"]), {0, 2, 1}).value()) <
          1e-10);
  }
  const Gradients gradients = backward(sum(logits * golden["g_logits"]));
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(test::difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Seq2Seq: logits, weights and all gradients are those of a second implementation") {
  const Golden golden("seq2seq");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i]);
    check_case(golden.at(std::to_string(i) + "/"), cases[i]);
  }
}

}  // namespace
}  // namespace attune::models
