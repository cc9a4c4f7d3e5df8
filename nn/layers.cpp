#include <atomic>
#include <cstdio>
#include <utility>

#include <attune/autograd/record.hpp>
#include <attune/nn/layers.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::nn {
namespace {

/// unfold over the steps, with zeros at padding.
Var windows(const Sequence& sequence, const UnfoldOptions& options) {
  const auto& [x, mask] = sequence;
  if (!mask.defined()) return unfold(x, options);
  const Mask steps = Mask::unchecked(mask.reshape({mask.dim(0), mask.dim(1), 1}));
  return unfold(where(steps, x, 0.0), options);
}

void check_sequence(const char* operation, const Sequence& sequence) {
  ShapeCheck check(operation);
  check("x", sequence.x, "T B D");
  if (sequence.mask.defined()) check("mask", sequence.mask, "T B");
}

}  // namespace

Var outside_of_training(const Var& x, const char* what) {
  if (!x.requires_gradient()) return x;
  return record("outside_of_training", x.value()).wrt(x, [what](const auto& dy) {
    static std::atomic_flag warned;
    if (!attune::detail::thread_state.checks_gradients && !warned.test_and_set()) {
      std::fprintf(stderr,
                   "attune: warning: backward of a loss that was computed outside of "
                   "nn::Training: %s had no effect\n",
                   what);
    }
    return dy;
  });
}

void require_dropout_rate(double rate) {
  if (!(rate >= 0 && rate < 1)) fail("dropout", "the rate {} is not in [0, 1)", rate);
}

Var Dropout::operator()(const Var& x) const {
  if (rate_ == 0) return x;
  Random* const random = Training::random();
  if (!random) return outside_of_training(x, "dropout");
  Tensor mask = Tensor::uninitialized(x.shape(), x.dtype(), "dropout");
  const auto compute = [&](Index begin, Index end, auto* values) {
    random->ahead(static_cast<std::uint64_t>(begin))
        .dropout(rate_, std::span(values + begin, values + end));
  };
  parallel_rows("dropout", std::tie(mask), mask.size(), elementwise_tile, compute);
  *random = random->ahead(static_cast<std::uint64_t>(mask.size()));
  return x * mask;
}

Embedding::Embedding(const Scope& scope, Integer vocabulary, Integer size, const Init& init)
    : path_(scope.path()) {
  if (vocabulary < 1) {
    const InLayer layer(path_);
    fail("Embedding", "vocabulary = {} is less than 1", vocabulary);
  }
  E_ = scope.add("E", {vocabulary, size}, init);
}

Conv1d::Conv1d(const Scope& scope, Integer in, Integer out, const Conv1dOptions& o)
    : windows_{.width = o.width, .stride = o.stride, .before = o.padding, .after = o.padding},
      linear_(scope, o.width * in, out, o.linear),
      path_(scope.path()) {
  require_valid(windows_);
}

Sequence Conv1d::operator()(const Sequence& sequence) const {
  const InLayer layer(path_);
  check_sequence("Conv1d", sequence);
  const auto& [x, mask] = sequence;
  std::vector<Index> lengths{x.dim(0)};
  if (mask.defined()) lengths = lengths_of(mask);
  for (Index& length : lengths) {
    const Index steps = std::exchange(length, windows_of(length, windows_));
    if (length > 0) continue;
    fail("Conv1d", "a sequence of {} steps with a padding of {} is shorter than a window of {}",
         steps, windows_.before, windows_.width);
  }
  const Var y = linear_(windows(sequence, windows_));
  if (!mask.defined()) return {y, mask};
  const Mask steps =
      lengths.empty() ? Mask(zeros({y.dim(0), 0}, mask.dtype())) : mask_of(lengths, mask.dtype());
  return {slice(y, 0, 0, steps.dim(0)), steps};  // y is longer if all sequences have padding
}

Sequence join_steps(const Sequence& sequence, Integer n) {
  check_sequence("join_steps", sequence);
  if (n < 1) fail("join_steps", "n = {} is less than 1", n);
  const auto& [x, mask] = sequence;
  const UnfoldOptions joined{.width = n, .stride = n, .after = n - 1};
  if (!mask.defined()) return {windows(sequence, joined), mask};
  const Tensor firsts =
      unfold(mask.to(x.dtype()).reshape({mask.dim(0), mask.dim(1), 1}), {.stride = n});
  return {windows(sequence, joined), Mask::unchecked(firsts.reshape({firsts.dim(0), mask.dim(1)}))};
}

}  // namespace attune::nn
