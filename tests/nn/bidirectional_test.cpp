#include <doctest/doctest.h>

#include <attune/nn/bidirectional.hpp>
#include <attune/nn/recurrent.hpp>

#include "nn/recurrent_checks.hpp"
#include "support/capture.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;

template <class Layer>
void check_bidirectional_golden(const char* file) {
  const Golden golden(file);
  nn::Parameters params(1, DType::f64);
  const nn::Bidirectional<Layer> layer(params, 7, 2);
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Tensor values = golden["x"], mask = golden["mask"];
  const Var x = params.add("x", values.shape(), [=](Tensor& to, Random&) { copy(values, to); });

  const auto [h, last] = layer(x, {.mask = mask});
  const auto& [forward, backward_] = last;
  CHECK(difference(h.value() * mask.reshape({5, 3, 1}), golden["h"]) < 1e-10);
  Var loss = test::weighted(h, golden["g_h"]);
  const auto check_state = [&](const Var& state, const std::string& name) {
    if (!golden.contains(name)) return;
    CHECK(difference(state.value(), golden[name]) < 1e-10);
    loss = loss + test::weighted(state, golden["g_" + name]);
  };
  check_state(forward.h, "forward.h_last");
  check_state(forward.c, "forward.c_last");
  check_state(backward_.h, "backward.h_last");
  check_state(backward_.c, "backward.c_last");
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Bidirectional: values and gradients of two Lstms are PyTorch's") {
  check_bidirectional_golden<nn::Lstm>("bidirectional_lstm");
}

TEST_CASE("Bidirectional: values and gradients of two Grus are PyTorch's") {
  check_bidirectional_golden<nn::Gru>("bidirectional_gru");
}

TEST_CASE("Bidirectional: the last states stand on the last and on the first word") {
  nn::Parameters params(2, DType::f64);
  const nn::Bidirectional<nn::Recurrent> layer(params, 4, 3, {.cell = nn::Cell::lstm});
  const std::vector<Index> lengths = {2, 5};
  const auto [h, last_states] =
      layer(randn({5, 2, 4}, DType::f64), {.mask = test::ragged_mask(5, lengths)});
  const auto& [forward, backward_] = last_states;
  REQUIRE(h.shape() == Shape{5, 2, 6});
  for (Index b = 0; b < 2; ++b) {
    const Index last = lengths[static_cast<std::size_t>(b)] - 1;
    CHECK(identical(h.value()[last][b].slice(0, 3), forward.h.value()[b]));
    CHECK(identical(h.value()[0][b].slice(3, 6), backward_.h.value()[b]));
  }
}

TEST_CASE("Bidirectional: the directions have parameters and initial values of their own") {
  nn::Parameters params;
  const nn::Bidirectional<nn::Gru> layer(nn::Scope(params) / "encoder", 4, 3,
                                         {.form = GruForm::reset_before});
  CHECK(params.all().size() == 6);
  CHECK_FALSE(params.contains("encoder.forward.b_hn"));
  CHECK(difference(params["encoder.forward.W_x"].value(), params["encoder.backward.W_x"].value()) >
        0.1);
}

/// Adds up what it has read.
class RunningSum {
 public:
  struct Options {};
  using State = nn::RecurrentState;

  RunningSum(const nn::Scope&, Index, Index, const Options&) {}
  Index size() const { return 1; }
  nn::RecurrentOutput<> operator()(const Var& x, const nn::RunOptions<>& options) const {
    const Index steps = x.dim(0);
    std::vector<Var> rows(static_cast<std::size_t>(steps));
    Var total;
    for (Index i = 0; i < steps; ++i) {
      const Index t = options.direction == Direction::forward ? i : steps - 1 - i;
      total = i == 0 ? x[t] : total + x[t];
      rows[static_cast<std::size_t>(t)] = total;
    }
    return {stack(rows), {total, {}}};
  }
};

TEST_CASE("Bidirectional: takes a layer of one's own") {
  nn::Parameters params;
  const nn::Bidirectional<RunningSum> layer(params, 1, 1);
  const auto [h, last] = layer(Tensor::of({3, 1, 1}, {1., 10., 100.}));
  CHECK(identical(h.value(), Tensor::of({3, 1, 2}, {1., 111., 11., 110., 111., 100.})));
}

}  // namespace
