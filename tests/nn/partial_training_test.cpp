#include <cmath>
#include <functional>
#include <utility>

#include <doctest/doctest.h>

#include <attune/autograd/loss.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/optimisers.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;

const Tensor x = randn({6, 4}, DType::f32, 1), labels = ints({6}, {0, 1, 2, 0, 1, 2});

bool in_head(const NamedVariable& parameter) { return parameter.name.starts_with("head."); }
bool in_body(const NamedVariable& parameter) { return !in_head(parameter); }

/// Two layers, trained with the gradients from `gradients`.
struct Network {
  nn::Parameters params{7};
  nn::Linear body{params / "body", 4, 5}, head{params / "head", 5, 3};

  Var hidden() const { return tanh(body(x)); }
  Var loss() const { return cross_entropy(head(hidden()), labels); }

  void train(const std::function<Gradients(const Network&)>& gradients) {
    nn::Adam adam(params, {.rate = 0.1});
    for (int step = 0; step < 5; ++step) {
      Gradients g = gradients(*this);
      adam.step(g);
    }
  }
};

TEST_CASE("training a part: equal bit for bit to detaching the other part") {
  const auto check = [](auto wanted, const std::function<Var(const Network&)>& detached) {
    Network some, by_hand;
    const Network initial;
    some.train([&](const Network& n) { return backward(n.loss(), n.params.where(wanted)); });
    by_hand.train([&](const Network& n) { return backward(detached(n)); });
    for (const NamedVariable& parameter : initial.params) {
      const std::string& name = parameter.name;
      CAPTURE(name);
      const Tensor trained = some.params[name].value();
      CHECK(identical(trained, by_hand.params[name].value()));
      CHECK(identical(trained, parameter.variable.value()) == !wanted(parameter));
    }
  };
  check(in_head,
        [](const Network& n) { return cross_entropy(n.head(detach(n.hidden())), labels); });
  check(in_body, [](const Network& n) {
    const Var W = detach(n.params["head.W"]), b = detach(n.params["head.b"]);
    return cross_entropy(add_matmul(b, n.hidden(), W), labels);
  });
}

TEST_CASE("training a part: clipping measures the gradients of that part alone") {
  const Network n;
  Gradients all = backward(n.loss()), some = backward(n.loss(), n.params.where(in_head));
  double squares = 0;
  for (const auto& [name, w] : n.params.where(in_head)) squares += sum_of_squares(all[w]);
  CHECK(some.global_norm() == std::sqrt(squares));
  CHECK(all.global_norm() > some.global_norm());
  nn::clip_by_global_norm(some, 0.01);
  CHECK(some.global_norm() == doctest::Approx(0.01));
}

/// A generative adversarial network (Goodfellow et al., 2014): each network by its own loss.
struct Adversaries {
  nn::Parameters makes{1}, judges{2};
  nn::Linear generator{makes, 3, 4}, discriminator{judges, 4, 1};
  nn::Adam makes_adam{makes, {.rate = 0.05}}, judges_adam{judges, {.rate = 0.05}};

  Var made(int round) const { return tanh(generator(randn({6, 3}, DType::f32, 10 + round))); }
  Var judged(const Var& sample) const { return discriminator(sample); }
};

TEST_CASE("training a part: two networks against each other, one forward pass of the generator") {
  Adversaries some, by_hand;
  for (int round = 0; round < 5; ++round) {
    const Var made = some.made(round);
    const Var judgement = mean(softplus(some.judged(made)) + softplus(-some.judged(x)));
    some.judges_adam.step(backward(judgement, some.judges));
    some.makes_adam.step(backward(mean(softplus(-some.judged(made))), some.makes));

    by_hand.judges_adam.step(backward(mean(softplus(by_hand.judged(detach(by_hand.made(round)))) +
                                           softplus(-by_hand.judged(x)))));
    by_hand.makes_adam.step(backward(mean(softplus(-by_hand.judged(by_hand.made(round))))));
  }
  for (const auto& [trained, expected] :
       {std::pair(&some.makes, &by_hand.makes), std::pair(&some.judges, &by_hand.judges)}) {
    for (std::size_t i = 0; i < trained->all().size(); ++i)
      CHECK(identical(trained->all()[i].variable.value(), expected->all()[i].variable.value()));
  }
}

}  // namespace
