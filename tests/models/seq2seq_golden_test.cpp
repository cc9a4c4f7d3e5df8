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

/// Largest difference where the mask is 1; x and y are (T, B, n).
double difference_on_words(const Var& x, const Var& y, const Tensor& mask) {
  const Tensor words = mask.reshape({mask.dim(0), mask.dim(1), 1}) * ones({x.dim(2)}, DType::f64);
  return test::difference((x * words).value(), (y * words).value());
}
/// The same of weights (T, S, B).
double difference_of_weights(const Var& x, const Tensor& y, const Tensor& mask) {
  return difference_on_words(permute(x, {0, 2, 1}), permute(Var(y), {0, 2, 1}), mask);
}

void check_case(const Golden& golden, const std::string& changes) {
  nn::Parameters params(1, DType::f64);
  const Seq2Seq model(params, options_of(changes));
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Tensor target_mask = golden["target_mask"];
  const Encoded encoded = model.encode(golden["source"], golden["source_mask"]);
  const auto [logits, weights] = force(model, encoded, golden["previous"]);
  CHECK(difference_on_words(logits, golden["logits"], target_mask) < 1e-10);
  if (weights.defined())
    CHECK(difference_of_weights(weights, golden["weights"], target_mask) < 1e-10);
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

// ---- Numbers from PyTorch

struct Names {
  const char *model, *golden;
};

constexpr Names kNames[] = {
    {"source.E", "source_embedding"},
    {"target.E", "target_embedding"},
    {"encoder.layer1.forward.W_x", "forward.W_x"},
    {"encoder.layer1.forward.W_h", "forward.W_h"},
    {"encoder.layer1.forward.b", "forward.b"},
    {"encoder.layer1.forward.b_hn", "forward.b_hn"},
    {"encoder.layer1.backward.W_x", "backward.W_x"},
    {"encoder.layer1.backward.W_h", "backward.W_h"},
    {"encoder.layer1.backward.b", "backward.b"},
    {"encoder.layer1.backward.b_hn", "backward.b_hn"},
    {"bridge.W", "W_init"},
    {"bridge.b", "b_init"},
    {"attention.W_a", "W_a"},
    {"attention.U_a", "U_a"},
    {"attention.v_a", "v_a"},
    {"decoder.layer1.W_x", "W_y"},
    {"decoder.W_c", "W_c"},
    {"decoder.layer1.W_h", "W_h"},
    {"decoder.layer1.b", "b"},
    {"decoder.layer1.b_hn", "b_hn"},
    {"readout.U_o", "U_s"},
    {"readout.V_o", "U_y"},
    {"readout.C_o", "U_c"},
    {"readout.b_o", "b_o"},
    {"output.W", "W_o"},
    {"output.b", "b_out"},
};

void check_golden(const Golden& golden, ReadoutKind kind) {
  nn::Parameters params(1, DType::f64);
  const Seq2Seq model(params, {.source_vocabulary = 11,
                               .target_vocabulary = 13,
                               .embedding = 7,
                               .hidden = 4,
                               .score = {.attention = 9},
                               .readout_kind = kind,
                               .readout = 10});
  REQUIRE(params.all().size() == std::size(kNames));
  for (const auto& [name, theirs] : kNames) test::set(params, name, golden[theirs]);
  const text::Batch batch{.source = golden["source"],
                          .source_mask = golden["source_mask"],
                          .previous = golden["previous"],
                          .next = golden["next"],
                          .target_mask = golden["target_mask"]};

  const Seq2Seq::State start = model.start(model.encode(batch.source, batch.source_mask));
  CHECK(test::difference(start.s.value(), golden["s_0"]) < 1e-10);
  CHECK(difference_on_words(start.source->memory.h, golden["memory"], batch.source_mask) < 1e-10);
  const auto [logits, weights] = force(model, batch);
  CHECK(difference_on_words(logits, golden["logits"], batch.target_mask) < 1e-10);
  REQUIRE(weights.shape() == Shape{5, 6, 3});
  CHECK(difference_of_weights(weights, golden["alphas"], batch.target_mask) < 1e-10);

  const Var loss = models::loss(model, batch);
  CHECK(std::abs(loss.item() - golden.number("loss")) < 1e-10);
  const Gradients gradients = backward(loss);
  for (const auto& [name, theirs] : kNames) {
    CAPTURE_BINDING(name);
    CHECK(test::difference(gradients[params[name]], golden[std::string("d_") + theirs]) < 1e-10);
  }
}

TEST_CASE("Seq2Seq: loss, logits, weights and all gradients are PyTorch's") {
  check_golden(Golden("bahdanau"), ReadoutKind::tanh);
}

TEST_CASE("Seq2Seq: with maxout, loss, logits, weights and all gradients are PyTorch's") {
  check_golden(Golden("bahdanau").at("maxout/"), ReadoutKind::maxout);
}

}  // namespace
}  // namespace attune::models
