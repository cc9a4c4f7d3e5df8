// Every operation of tests/support/op_cases.cpp, forward and backward. The shapes are tiny, so this
// measures the overhead of recording and traversing the graph, which dominates in small models.

#include <attune/autograd/backward.hpp>

#include "support/counters.hpp"
#include "support/op_cases.hpp"

namespace attune {
namespace {

void run_op(benchmark::State& state, const OpCase& op) {
  std::vector<Var> inputs;
  for (const Tensor& x : op.inputs) inputs.push_back(variable(x.to(DType::f64)));
  const Tensor dy = ones(op(inputs).shape(), DType::f64);
  for (auto _ : state) benchmark::DoNotOptimize(backward(op(inputs), dy));
}

[[maybe_unused]] const bool registered = [] {
  for (const OpCase& op : op_cases()) {
    benchmark::RegisterBenchmark((op.group + "/" + op.name).c_str(),
                                 [op](benchmark::State& state) { run_op(state, op); });
  }
  return true;
}();

/// 350 operations on one element; a training step of a small model has about as many operations.
void chain(benchmark::State& state) {
  const Var x = variable(ones({1}));
  for (auto _ : state) {
    Var y = x;
    for (int i = 0; i < 350; ++i) y = y * x;
    benchmark::DoNotOptimize(backward(y));
  }
  state.SetItemsProcessed(state.iterations() * 350);
}
BENCHMARK(chain);

}  // namespace
}  // namespace attune
