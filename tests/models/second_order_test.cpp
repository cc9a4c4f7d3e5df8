// Hessian-vector products of the losses of whole models, compared with central differences of
// gradients.

#include <doctest/doctest.h>

#include <attune/autograd/grad.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"

namespace attune {
namespace {

/// (8 (g(h) - g(-h)) - (g(2h) - g(-2h))) / 12h for the gradients g(c) at the parameters + c v.
std::vector<Tensor> difference_of_gradients(const nn::Parameters& params, const Gradients& v,
                                            const std::function<Var()>& loss, double h) {
  const auto move = [&](double by) {
    for (const auto& [name, w] : params) {
      Tensor values = w.value();
      add_in_place(values, v[w] * by);
    }
  };
  std::vector<Tensor> total;
  for (const auto& [at, factor] : {std::pair{1., 8.}, {-1., -8.}, {2., -1.}, {-2., 1.}}) {
    move(at * h);
    const Gradients g = backward(loss());
    move(-at * h);
    for (std::size_t i = 0; const auto& [name, w] : params) {
      const Tensor part = g[w] * (factor / (12 * h));
      i < total.size() ? add_in_place(total[i], part) : total.push_back(part);
      ++i;
    }
  }
  return total;
}

}  // namespace

TEST_CASE("Models: Hessian-vector products equal differences of gradients") {
  for (const std::string text :
       {"bahdanau", "bahdanau cell=lstm coverage=summed", "nematus", "luong score=concat",
        "luong score=dot window=local-p", "luong score=general normalizer=sparsemax",
        "encoder-decoder", "sutskever", "transformer"}) {
    CAPTURE(text);
    nn::Parameters params(3, DType::f64);
    const models::NamedModel model(
        params,
        test::options_from(text,
                           "embedding=4 hidden=4 readout=4 attention=4 inner=6 "
                           "attention-heads=2 encoder-layers=1 decoder-layers=1 dropout=0"),
        {11, 9});
    test::scale_parameters(params, 1.5);
    const text::Batch batch = text::make_batch(test::ragged_pairs(11, 9, 5));
    const auto loss = [&] { return model.loss(batch); };
    std::vector<Tensor> directions;
    for (const auto& [name, w] : params) directions.push_back(randn(w.shape(), DType::f64, 7));
    const Gradients v(params, directions);
    const Gradients product = hessian_product(loss(), params, v);
    const auto expected = difference_of_gradients(params, v, loss, 2e-5);
    for (std::size_t i = 0; const auto& [name, w] : params) {
      const std::string& parameter = name;  // clang 14 captures no structured bindings
      CAPTURE(parameter);
      CHECK(difference(product[w], expected[i++]) < 1e-7);
    }
  }
}

}  // namespace attune
