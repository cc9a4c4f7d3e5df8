#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/grad.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>

#include "support/ctc_readings.hpp"
#include "support/golden.hpp"
#include "support/naive.hpp"
#include "support/same_function.hpp"

namespace attune {
namespace {

using test::Labels, test::readings;

Tensor column(const Labels& labels) {
  return Tensor::of({std::ssize(labels), 1}, std::span<const std::int32_t>(labels));
}

constexpr CtcLossOptions summed{.reduction = Reduction::sum};

}  // namespace

TEST_CASE("ctc_loss: equals the sum over all paths, for any labels") {
  const Tensor logits = randn({5, 1, 3}, DType::f64), frames = ones({5, 1}, DType::f64);
  double total = 0;
  for (const auto& [labels, probability] : readings(logits)) {
    const Tensor mask = ones({std::ssize(labels), 1}, DType::f64);
    const double loss = ctc_loss(logits, frames, column(labels), mask, summed).item();
    CHECK(loss == doctest::Approx(-std::log(probability)).epsilon(1e-12));
    total += std::exp(-loss);
  }
  CHECK(total == doctest::Approx(1).epsilon(1e-12));
}

TEST_CASE("ctc_loss: values and gradients equal PyTorch's") {
  for (const auto& [name, reduction] :
       {std::pair("ctc sum/", Reduction::sum), {"ctc mean/", Reduction::mean}}) {
    const Golden golden = Golden("sequences").at(name);
    const Var logits = variable(golden["logits"]);
    const Var loss = ctc_loss(logits, golden["mask"], golden["labels"], golden["labels_mask"],
                              {.reduction = reduction});
    CHECK(loss.item() == doctest::Approx(golden.number("loss")).epsilon(1e-12));
    CHECK(difference(backward(loss)[logits], golden["d_logits"]) < 1e-12);
  }
}

TEST_CASE("ctc_loss: gradients equal central differences, also at large logits") {
  const Golden golden = Golden("sequences").at("ctc sum/");
  for (const double scale : {0.3, 3.0}) {
    CHECK(gradcheck(
        [&](const Var& logits) {
          return ctc_loss(logits, golden["mask"], golden["labels"], golden["labels_mask"]);
        },
        golden["logits"] * scale, {.tolerance = 1e-5, .order = 2}));
  }
}

TEST_CASE("ctc_loss: values at padding have no effect; any symbol may be the blank") {
  const Golden golden = Golden("sequences").at("ctc sum/");
  const Tensor logits = golden["logits"], mask = golden["mask"], labels = golden["labels"];
  const Tensor used = golden["labels_mask"];
  const double expected = golden.number("loss");
  const Tensor frames = mask.reshape({9, 4, 1});
  const Var x = variable(where(frames, logits, scalar(NAN, DType::f64)));
  const Var loss =
      ctc_loss(x, mask, where(used, labels.to(DType::f64), scalar(99, DType::f64)).to(DType::i32),
               used, summed);
  CHECK(loss.item() == doctest::Approx(expected).epsilon(1e-12));
  CHECK(difference(grad(loss, x).value(), golden["d_logits"]) < 1e-12);
  CHECK(difference(backward(loss)[x], golden["d_logits"]) < 1e-12);
  // Renames the symbols 0 to 4 to 1, 2, 3, 4, 0.
  const Tensor parts[] = {slice(logits, 2, 4, 5), slice(logits, 2, 0, 4)};
  const Tensor turned = concat(parts, 2);
  const Tensor turned_labels =
      map(labels.to(DType::f64), [](auto v) { return v == 4 ? 0 : v + 1; }).to(DType::i32);
  CHECK(ctc_loss(turned, mask, turned_labels, used, {.reduction = Reduction::sum, .blank = 1})
            .item() == doctest::Approx(expected).epsilon(1e-12));
}

TEST_CASE("ctc_loss: 1000 frames do not underflow") {
  // All frames have the same distribution. The labels (1) have T (T + 1) / 2 paths.
  const Index frames = 1000;
  const double loss = ctc_loss(zeros({frames, 1, 3}, DType::f64), ones({frames, 1}, DType::f64),
                               column({1}), ones({1, 1}, DType::f64), summed)
                          .item();
  const double paths = static_cast<double>(frames * (frames + 1)) / 2;
  CHECK(loss == doctest::Approx(frames * std::log(3.0) - std::log(paths)).epsilon(1e-12));
}

TEST_CASE("ctc_loss: impossible labels have infinite loss and gradient 0") {
  Tensor logits = randn({4, 2, 3}, DType::f64);
  for (Index t = 0; t < 4; ++t) logits.mutable_data<double>()[t * 6 + 3 + 2] = -INFINITY;
  const Var x = variable(logits);
  const Tensor frames = ones({4, 2}, DType::f64), one = ones({1, 2}, DType::f64);
  const Var loss = ctc_loss(x, frames, ints({1, 2}, {1, 2}), one, summed);
  CHECK(loss.item() == INFINITY);
  const Tensor d = backward(loss)[x];
  CHECK(difference(slice(d, 1, 1, 2), zeros({4, 1, 3}, DType::f64)) == 0);
  CHECK(difference(slice(d, 1, 0, 1), zeros({4, 1, 3}, DType::f64)) > 0.01);
  logits.mutable_data<double>()[0] = NAN;  // not infinite, which would hide it
  CHECK(std::isnan(ctc_loss(logits, frames, ints({1, 2}, {1, 1}), one, summed).item()));
}

TEST_CASE("ctc_loss: f32, no frames, no sentences") {
  const Golden golden = Golden("sequences").at("ctc sum/");
  const Var x = variable(golden["logits"].to(DType::f32));
  const Var loss = ctc_loss(x, golden["mask"], golden["labels"], golden["labels_mask"], summed);
  CHECK(loss.item() == doctest::Approx(golden.number("loss")).epsilon(1e-6));
  CHECK(difference(backward(loss)[x].to(DType::f64), golden["d_logits"]) < 1e-6);
  CHECK(ctc_loss(zeros({0, 1, 3}), zeros({0, 1}), zeros({0, 1}, DType::i32), zeros({0, 1}), summed)
            .item() == 0);
  CHECK(ctc_loss(zeros({4, 0, 3}), zeros({4, 0}), zeros({2, 0}, DType::i32), zeros({2, 0}), summed)
            .item() == 0);
}

TEST_CASE("ctc_loss: errors name what is wrong") {
  const Tensor logits = randn({3, 2, 5}, DType::f64), mask = ones({3, 2}, DType::f64),
               two = ones({2, 2}, DType::f64);
  const auto error = [&](const Tensor& labels, const Tensor& labels_mask) {
    return error_of([&] { ctc_loss(logits, mask, labels, labels_mask); });
  };
  CHECK(error(ints({2, 2}, {1, 2, 3, 5}), two) ==
        "ctc: label 1 of sentence 1 is 5, but must be in 0 to 4 and not the blank 0");
  CHECK(error(ints({2, 2}, {1, 2, 0, 3}), two) ==
        "ctc: label 1 of sentence 0 is 0, but must be in 0 to 4 and not the blank 0");
  CHECK(error(ints({3, 2}, {1, 2, 1, 3, 1, 4}), ones({3, 2}, DType::f64)) ==
        "ctc: sentence 0 has 3 frames, but its 3 labels need 5");
  CHECK(error(ints({2, 1}, {1, 2}), ones({2, 1}, DType::f64)) ==
        "ctc: labels (U, B) is (2, 1), but B = 2 in logits");
  CHECK(error(ints({2, 2}, {1, 2, 3, 4}), zeros({2, 2}, DType::f64)) ==
        "ctc_loss: there is no position with mask 1");
  CHECK_ERROR("ctc: the blank 5 is not in 0 to 4",
              ctc_loss(logits, mask, ints({2, 2}, {1, 2, 3, 4}), two, {.blank = 5}));
}

}  // namespace attune
