// A tensor modified between forward and backward: backward throws, or uses the old values.

#include <optional>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/tensor/errors.hpp>

#include "support/op_cases.hpp"

namespace attune {
namespace {

/// Other valid elements: for masks ones, for ids zeros.
void refill(Tensor x) { fill(x, x.dtype() == DType::i32 ? 0 : 1); }

/// How an input reaches an operation: as a tensor computed from x, refilled later; or again from x.
struct Route {
  const char* name;
  Tensor (*kept)(const Tensor& x);
  Var (*input)(const Var& kept, const Shape& shape);
};
const Route routes[] = {
    {"as it is", [](const Tensor& x) { return x.clone(); },
     [](const Var& kept, const Shape&) { return kept; }},
    {"reshaped", [](const Tensor& x) { return x.clone().reshape({-1}); },
     [](const Var& kept, const Shape& shape) { return reshape(kept, shape); }},
    {"a row of a larger tensor",
     [](const Tensor& x) {
       return stack({x, x});
     },
     [](const Var& kept, const Shape&) { return kept[1]; }},
    {"transposed", [](const Tensor& x) { return x.rank() < 2 ? x.clone() : transpose(x, 0, -1); },
     [](const Var& kept, const Shape&) {
       return kept.rank() < 2 ? kept : transpose(kept, 0, -1);
     }}};

/// The gradient of input `of`, after tensor `changed` was refilled before backward: an input, a
/// constant or the result; none for larger numbers. Empty if backward throws. f is used twice, so
/// that products are deferred and computed after the operation that is walked last.
std::optional<Tensor> gradient(const OpCase& op, const Route& route, std::size_t of,
                               std::size_t changed) {
  std::vector<Tensor> all = op.inputs;
  all.insert(all.end(), op.constants.begin(), op.constants.end());
  const Var x = variable(route.kept(all[of])), before = exp(x);
  std::vector<Tensor> kept;
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    kept.push_back(i == of ? x.value() : route.kept(all[i]));
    inputs.push_back(route.input(i == of ? x : Var(kept[i]), all[i].shape()));
  }
  const Var first = op.f(inputs), second = op.f(inputs);
  kept.push_back(first.value());
  const Tensor dy = randn(first.shape(), DType::f64, 5);
  const Var loss = sum(first * dy) + sum(second * dy) + sum(before);
  if (changed < kept.size()) refill(kept[changed]);
  try {
    return backward(loss)[x];
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK_MESSAGE(message.ends_with("was modified in place after the forward pass"), message);
    return {};
  }
}

}  // namespace

TEST_CASE("In place: a modified input or result is an error, or the gradient uses the old values") {
  int errors = 0;
  for (const OpCase& op : op_cases()) {
    INFO(op.group, ": ", op.name);
    const std::size_t tensors = op.inputs.size() + op.constants.size() + 1;
    for (const Route& route : routes) {
      for (std::size_t of = 0; of < op.inputs.size(); ++of) {
        INFO(route.name, ", the gradient of input ", of);
        const std::optional<Tensor> right = gradient(op, route, of, tensors);
        REQUIRE(right);
        for (std::size_t changed = 0; changed < tensors; ++changed) {
          CAPTURE(changed);
          const std::optional<Tensor> found = gradient(op, route, of, changed);
          errors += !found;
          CHECK((!found || identical(*found, *right)));
        }
      }
    }
  }
  CHECK(errors > 500);
}

}  // namespace attune
