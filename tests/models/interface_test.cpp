// What the public functions accept: integers for extents, indices, axes and counts, and accessors of
// temporaries that do not refer to them.
#include <doctest/doctest.h>

#include <attune/attune.hpp>

#include "support/errors.hpp"

namespace attune {
namespace {

/// The call if it compiles with an n that is no integer, or does not with an integer; else empty.
#define WRONG(...) (requires { __VA_ARGS__; } == integer ? "" : #__VA_ARGS__ "; ")

TEST_CASE("Integer: extents, indices, axes and counts are not fractions or bools") {
  const Tensor x = ones({2, 3}), ids = arange(2);
  const Var v = x;
  Random random(1);
  nn::Parameters params;
  const nn::Scope scope = params;
  const text::Vocabulary vocabulary;
  const auto wrong = [&](auto n) {
    constexpr bool integer = std::is_same_v<decltype(n), int>;
    return std::string() + WRONG(arange(n)) + WRONG(eye(n)) + WRONG(zeros({n, 2})) +
           WRONG(x.reshape({n, -1})) + WRONG(x.at<float>({0, n})) + WRONG(x[n]) + WRONG(v[n]) +
           WRONG(x.dim(n)) + WRONG(v.shape()[n]) + WRONG(x.shape().with(n, 2)) +
           WRONG(slice(v, n, 0, 1)) + WRONG(pad(x, 0, n, 0)) + WRONG(concat({x, x}, n)) +
           WRONG(transpose(x, 0, n)) + WRONG(permute(x, {0, n})) + WRONG(sum(x, n)) +
           WRONG(max(v, {0, n})) + WRONG(softmax(v, n)) + WRONG(gather(x, ids, n)) +
           WRONG(one_hot(ids, n)) + WRONG(var(x, 0, KeepAxes::no, n)) + WRONG(unsqueeze(v, n)) +
           WRONG(split(x, {1, 1}, n)) + WRONG(split(x, {n, 1}, 0)) + WRONG(roll(x, n, 0)) +
           WRONG(repeat(x, n, 0)) + WRONG(topk(x, n)) + WRONG(segment_sum(x, ids, n)) +
           WRONG(random.below(n)) + WRONG(shuffled(n, random)) + WRONG(set_threads(n)) +
           WRONG(nn::Linear(scope, n, 2)) + WRONG(nn::Embedding(scope, 2, n)) +
           WRONG(nn::AdditiveScore(scope, n, 2)) + WRONG(nn::LinearDecay{}(n)) +
           WRONG(nn::Schedule()(n)) + WRONG(params.add("w", {n, 2}, nn::init::zeros())) +
           WRONG(vocabulary.token(n)) + WRONG(models::no_source(n));
  };
  CHECK(wrong(1) == "");
  CHECK(wrong(1.5) == "");
  CHECK(wrong(1.0f) == "");
  CHECK(wrong(true) == "");
  enum { T, B };
  CHECK(x.dim(B) == x.dim(std::size_t{1}));
  CHECK_ERROR("shape: there is no axis 4294967296 in (2, 3)", x.dim(Index{1} << 32));
  CHECK_ERROR("sum: there is no axis 99 in (2, 3)", sum(x, Index{1} << 32));
  CHECK_ERROR("sum: there is no axis -99 in (2, 3)", sum(x, {0, -(Index{1} << 32)}));
  const auto seeds = [&](auto n) {
    constexpr bool integer = std::is_same_v<decltype(n), int>;
    return std::string() + WRONG(Random(n)) + WRONG(Random(n, 1)) + WRONG(Random(1, n)) +
           WRONG(Random(n, "w")) + WRONG(random.ahead(n)) + WRONG(nn::Parameters(n));
  };
  CHECK(seeds(1) == "");
  CHECK(seeds(1.5) == "");
  CHECK(seeds(true) == "");
  const auto keeps = [&](auto keep) {
    return requires { mean(x, -1, keep); }
    || requires { std(v, 0, keep); };
  };
  CHECK(keeps(KeepAxes::yes));
  CHECK_FALSE(keeps(true));
}

/// The accessor if it compiles for an rvalue of this type; else empty.
#define ALLOWED(Type, ...)                                \
  ([]<class X>(std::type_identity<X>) {                   \
    return requires { std::declval<X>() __VA_ARGS__; }    \
    || requires { std::declval<const X>() __VA_ARGS__; }; \
  }(std::type_identity<Type>())                           \
       ? #Type #__VA_ARGS__ "; "                          \
       : "")

TEST_CASE("temporaries: accessors return values, or do not compile") {
  const Var w = variable(ones({3}));
  const Tensor& y = (w * 2.0).value();
  const Tensor& gradient = backward(sum(w * w))[w];
  const Shape& shape = (w * 2.0).value().shape();
  auto&& element = nn::Parameters(1).add("w", {1}, nn::init::constant(4)).value();
  const Tensor other = full({3}, 7);
  for (const Index extent : (w * 2.0).shape()) CHECK(extent == 3);
  CHECK(sum(y).item() == 6);
  CHECK(sum(gradient).item() == 6);
  CHECK(shape == Shape{3});
  CHECK(element.item() == 4);
  for (const Tensor& each : backward(sum(w * w)).all()) CHECK(sum(each).item() == 6);
  CHECK(std::string() + ALLOWED(Shape, .begin()) + ALLOWED(Shape, .end()) +
            ALLOWED(Tensor, .template data<float>()) +
            ALLOWED(Tensor, .template mutable_data<float>()) +
            ALLOWED(Tensor, .template mutable_at<float>({0})) + ALLOWED(Gradients, .find(Var())) +
            ALLOWED(Gradients, += Gradients()) + ALLOWED(Safetensors, .find("w")) +
            ALLOWED(nn::Parameters, .all()) + ALLOWED(nn::Parameters, .begin()) +
            ALLOWED(nn::Parameters, .end()) + ALLOWED(nn::Parameters, .data()) +
            ALLOWED(nn::Scope, .path()) + ALLOWED(nn::DotScore, .path()) +
            ALLOWED(text::Vocabulary, .token(0)) + ALLOWED(text::Vocabulary, .tokens()) +
            ALLOWED(text::Tokenizer, .pieces()) + ALLOWED(text::Tokenizer, .rewriter()) +
            ALLOWED(models::Model::State, .template as<int>()) ==
        "");
  CHECK(!std::is_constructible_v<nn::InLayer, std::string>);
  CHECK(std::is_same_v<decltype(nn::Parameters()["w"]), Var>);
}

TEST_CASE("record: an operation can be used several times") {
  const Var x = variable(ones({3}));
  auto y = record("twice", x.value() * 2.0).wrt(x, [](const Tensor& dy) { return dy * 2.0; });
  const Var a = y, b = y, loss = sum(a * b);
  CHECK(loss.item() == 12);
  CHECK(sum(backward(loss)[x]).item() == 24);
}

TEST_CASE("Mask: functions of a Tensor take it, and an undefined one selects all") {
  const Mask mask = Tensor::of<float>({2, 2}, {1, 0, 1, 1});
  const Var x = variable(full({2, 2}, 3));
  CHECK(unsqueeze(mask, -1).shape() == Shape{2, 2, 1});
  CHECK(sum(where(mask, 1.0, -1.0)).item() == 2);
  CHECK(sum(where(mask, mask, 5.0)).item() == 8);
  CHECK(einsum("ij,ij->", mask, x).item() == 9);
  CHECK(sum(where(Mask(), x, 1.0)).item() == 12);
  CHECK(sum(backward(sum(where(Mask(), x, x.value())))[x]).item() == 4);
  CHECK(masked_select(x, Mask()).shape() == Shape{4});
}

}  // namespace
}  // namespace attune
